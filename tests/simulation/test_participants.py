"""Partial work: clients that do a part of their epochs, and clients that are sampled but never answer."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench import ConfigError, Simulation, TrialConfig, simulate
from fedbench.config import RunConfig
from fedbench.methods import METHODS, Cohort
from fedbench.simulation import participants
from fedbench.simulation.compute import exact
from fedbench.simulation.engines import graphed as module
from fedbench.simulation.engines.graphed import Graphed
from fedbench.simulation.participants import answers, epochs_of, sample_clients
from fedbench.store.folder import summary
from fedbench.testing.runs import finished, resumed, same
from tests.simulation.engines.recording import Recording

Make = Callable[..., TrialConfig]
PARTIAL: dict[str, Any] = {"clients__epochs": 3, "clients__straggler": 0.6, "clients__dropout": 0.3}
BUILT_IN = sorted(name for name in METHODS if METHODS.version(name) is None and name != "flower")


def config(**settings: Any) -> TrialConfig:
    return TrialConfig(**{key.replace("__", "."): value for key, value in {"clients__epochs": 5, **settings}.items()})


def cohorts(run: Simulation, monkeypatch: pytest.MonkeyPatch) -> list[Cohort]:
    """All cohorts that the method of a run has aggregated."""
    seen: list[Cohort] = []
    inner = run.method.aggregate

    def aggregate(cohort: Cohort, *rest: Any) -> Any:
        seen.append(cohort)
        return inner(cohort, *rest)

    monkeypatch.setattr(run.method, "aggregate", aggregate)
    finished(run)
    return seen


@given(
    straggler=st.floats(0.01, 1),
    least=st.integers(1, 4),
    seed=st.integers(0, 99),
    t=st.integers(1, 50),
    i=st.integers(0),
)
def test_a_straggler_does_between_its_least_and_all_epochs(
    straggler: float, least: int, seed: int, t: int, i: int
) -> None:
    i %= 20
    settings = {"clients__straggler": straggler, "clients__min_epochs": least, "seed": seed}
    assert least <= epochs_of(config(**settings), t, i) <= 5
    assert epochs_of(config(**settings), t, i) == epochs_of(config(**settings), t, i)
    assert epochs_of(config(**settings), t, 20) == 5, "a proxy set that takes part as a client does all epochs"


@given(
    low=st.floats(0, 0.98), more=st.floats(0, 1), seed=st.integers(0, 99), t=st.integers(1, 50), i=st.integers(0, 19)
)
def test_a_larger_share_keeps_the_same_clients_and_adds_further_ones(
    low: float, more: float, seed: int, t: int, i: int
) -> None:
    high = low + more * (0.99 - low)
    few, many = (config(clients__dropout=share, clients__straggler=share, seed=seed) for share in (low, high))
    assert answers(few, t, i) or not answers(many, t, i)
    assert epochs_of(few, t, i) in (5, epochs_of(many, t, i))


def test_shares_and_epochs_are_those_that_the_settings_say() -> None:
    made = config(clients__straggler=0.4, clients__dropout=0.2, clients__min_epochs=2)
    absent = [not answers(made, t, i) for t in range(1, 251) for i in range(20)]
    epochs = np.array([epochs_of(made, t, i) for t in range(1, 251) for i in range(20)])
    assert np.mean(absent) == pytest.approx(0.2, abs=0.03)  # 5 standard errors
    assert np.mean(epochs < 5) == pytest.approx(0.4 * 3 / 4, abs=0.033)
    for part in (2, 3, 4):
        assert np.mean(epochs == part) == pytest.approx(0.1, abs=0.022)


def test_without_stragglers_and_dropout_a_run_is_what_it_was(tiny: Make) -> None:
    plain, zero = tiny(clients__epochs=2), tiny(clients__epochs=2, clients__straggler=0.0, clients__dropout=0.0)
    assert plain.hash == zero.hash == tiny(clients__epochs=2, clients__min_epochs=2).hash
    assert same(finished(Simulation(plain)), finished(Simulation(zero)))
    assert "work" not in next(simulate(plain)).tables
    hashes = {tiny(clients__epochs=3, **{f"clients__{key}": 0.5}).hash for key in ("straggler", "dropout")}
    hashes |= {
        tiny(clients__epochs=3, clients__straggler=0.5, clients__min_epochs=2).hash,
        tiny(clients__epochs=3).hash,
    }
    assert len(hashes) == 4


def test_all_methods_of_a_seed_have_the_same_stragglers_and_absent_clients(tiny: Make) -> None:
    runs = [list(simulate(tiny(**PARTIAL, method__name=name))) for name in ("fedavg", "fednova", "fedlaw")]
    tables = [[record.tables["work"] for record in run] for run in runs]
    assert tables[0] == tables[1] == tables[2]
    assert {epochs for table in tables[0] for _, epochs in table} >= {0, 3}


def test_those_who_answer_are_the_rows_of_the_cohort_with_the_steps_that_they_took(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny(**PARTIAL, rounds=4, clients__batch_size=8)
    run = Simulation(made)
    for cohort in cohorts(run, monkeypatch):
        record = run.state.history[cohort.round - 1]
        rows: Any = record.tables["work"]
        work = {client: epochs for client, epochs in rows if epochs}
        assert cohort.clients == tuple(sorted(work)) == record.clients
        assert tuple(cohort.W.shape) == (len(work), len(cohort.w))
        assert float(cohort.p.sum()) == pytest.approx(1)
        shards = run.federation.split.shards
        steps = [work[client] * -(-len(shards[client]) // 8) for client in cohort.clients]
        assert cohort.work.steps.tolist() == steps
        assert len(sample_clients(made, cohort.round)) == made.participants == len(record.tables["work"])


def test_a_straggler_takes_the_first_steps_of_all_that_it_would_take(tiny: Make) -> None:
    whole, partial = (Simulation(tiny(clients__epochs=3, clients__straggler=share)) for share in (0.0, 1.0))
    clients = range(whole.num_clients)
    shorter = 0
    for full, part in zip(whole.plans.of(1, clients), partial.plans.of(1, clients), strict=True):
        shorter += len(part.full) < len(full.full)
        assert torch.equal(part.full, full.full[: len(part.full)])
        assert torch.equal(part.rest, full.rest[: len(part.rest)])
    assert shorter


def test_fednova_weighs_stragglers_by_their_true_steps(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"method__name": "fednova", "clients__momentum": 0.0, "precision": "float64", "rounds": 1}
    run = Simulation(tiny(clients__epochs=4, clients__straggler=0.7, **settings))
    (cohort,) = cohorts(run, monkeypatch)
    a, p = cohort.work.steps, cohort.p
    assert len(set(a.tolist())) > 1
    moved = ((p / a)[:, None] * (cohort.W - cohort.w)).sum(0)
    assert torch.allclose(run.state.w, cohort.w + (p @ a) * moved, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_runs_with_stragglers_and_absent_clients_and_resumes(tiny: Make, name: str) -> None:
    settings: dict[str, Any] = {**PARTIAL, "clients__dropout": 0.5, "method__name": name, "rounds": 3}
    known = METHODS.get(name).Settings.model_fields
    settings |= {"method__epochs": 2} if "epochs" in known else {}
    settings |= {"method__f": 0.0} if "f" in known else {}
    made = tiny(**settings)
    assert same(finished(Simulation(made)), resumed(made, 2))


def test_absent_clients_keep_their_momentum_and_their_control_variates(tiny: Make) -> None:
    run = Simulation(tiny(**PARTIAL, method__name="scaffold", rounds=1, clients__momentum=0.9))
    record = run.step()
    assert run.state.velocity is not None
    for client, epochs in record.tables["work"]:
        assert isinstance(client, int)
        assert bool(run.state.velocity[client].any()) == bool(epochs)
        assert bool(run.state.method["c_clients"][client].any()) == bool(epochs)


def test_a_round_without_an_answer_leaves_the_model_as_it_is(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participants, "answers", lambda config, t, client: t != 2 and answers(config, t, client))
    for method in ({"method__name": "fedavgm"}, {"method__name": "fedavg", "method__proxy_client": True}):
        run = Simulation(tiny(**method, clients__dropout=1e-9, rounds=3))
        first = run.step()
        w, state = run.state.w, run.state.method
        second = run.step()
        assert run.state.w is w and run.state.method is state
        assert second.skipped == "no client answered" and second.diverged is None
        assert second.clients == second.lambda_ == ()
        assert (second.test_accuracy, second.test_loss) == (first.test_accuracy, first.test_loss)
        third = run.step()
        assert third.skipped is None and not torch.equal(run.state.w, w)
        assert summary(run)["skipped_rounds"] == {"2": "no client answered"}
        assert summary(run)["status"] == "done"


def test_a_round_with_too_few_answers_for_the_method_leaves_the_model_as_it_is(tiny: Make) -> None:
    run = Simulation(tiny(method__name="krum", method__f=0.1, clients__count=10, clients__dropout=0.5, rounds=8))
    outcomes = set()
    while not run.done:
        before = run.state.w
        record = run.step()
        answered = len(record.clients)
        assert (record.skipped is None) == (run.config.method.check(answered) is None)
        assert answered == 0 or not record.skipped or record.skipped.startswith("too few clients answered: ")
        assert torch.equal(before, run.state.w) == bool(record.skipped)
        assert bool(record.train_loss) == bool(answered)
        outcomes.add(bool(record.skipped))
    assert outcomes == {True, False}


def test_the_summary_and_the_tables_say_who_was_partial_or_absent(tiny: Make, tmp_path: Path) -> None:
    from fedbench.cli.main import main  # the command of users

    arguments = ["clients.epochs=3", "clients.straggler=0.6", "clients.dropout=0.3", "rounds=4", "clients.count=5"]
    sets = [word for text in [*arguments, "data.train_size=300"] for word in ("--set", text)]
    assert main(["trial", *sets, "--out", str(tmp_path / "run")]) == 0
    with (tmp_path / "run" / "work.csv").open() as stream:
        work = [(row["client"], int(row["epochs"])) for row in csv.DictReader(stream)]
    assert len(work) == 4 * 5
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    for client in map(str, range(5)):
        mine = [epochs for owner, epochs in work if owner == client]
        assert found["rounds_absent"].get(client, 0) == mine.count(0)
        assert found["rounds_partial"].get(client, 0) == sum(0 < epochs < 3 for epochs in mine)
    assert found["bytes_up"] == (20 - sum(found["rounds_absent"].values())) * 4 * found["parameters"]
    with (tmp_path / "run" / "indicators.csv").open() as stream:
        numbers = [row for row in csv.DictReader(stream) if row["name"] == "absent_clients"]
    assert sum(float(row["value"]) for row in numbers) == sum(found["rounds_absent"].values())


def test_where_all_train_absent_clients_do_not(tiny: Make) -> None:
    made = tiny(**PARTIAL, clients__participation=0.6, clients__train="all", clients__momentum=0.9, rounds=1)
    run = Simulation(made)
    record = run.step()
    assert run.state.velocity is not None
    absent = {client for client, epochs in record.tables["work"] if not epochs}
    assert absent == {i for i, velocity in enumerate(run.state.velocity) if not velocity.any()}


def test_replayed_steps_give_the_same_run_with_partial_work(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH_USES", 1)
    made = tiny(**PARTIAL, method__name="fednova")
    with exact(RunConfig(), torch.device("cpu")):
        eager, captured = Simulation(made), Simulation(made)
        recording = Recording()
        captured.engine = Graphed(captured.model, captured.federation.train, recording)
        assert same(finished(eager), finished(captured))
    assert sum(graph.replays for graph in recording.graphs) > 0


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"clients__straggler": 0.5, "clients__epochs": 1}, "clients.epochs must be above clients.min_epochs"),
        ({"clients__straggler": 0.5, "clients__min_epochs": 7}, "clients.min_epochs=7"),
        ({"clients__dropout": 1.0}, "clients.dropout"),
        ({"clients__straggler": 1.5}, "clients.straggler"),
        ({"clients__min_epochs": 0}, "clients.min_epochs"),
        (
            {
                "clients__dropout": 0.1,
                "clients__count": 3,
                "data__partition": "three_node",
                "indicators__simplex_every": 1,
            },
            "clients.dropout = 0.1: indicators.simplex_every",
        ),
    ],
)
def test_wrong_shares_get_one_line(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line.replace(".", r"\.")) as error:
        config(**settings)
    assert "\n" not in str(error.value)
