"""The bounds of federated training: all data in one place, and each client on its own."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench import ConfigError, Simulation, TrialConfig
from fedbench.analysis.values import plain_values
from fedbench.metrics import METRICS
from fedbench.metrics.bounds import gap_closed
from fedbench.metrics.clients import client_accuracies
from fedbench.simulation.evaluation import evaluate, predictions
from fedbench.simulation.local import cut_plan, draw_order, draw_stream, plan_steps
from fedbench.specs.expand import expand
from fedbench.store.execute import execute
from fedbench.store.store import Store, StoredTrial
from fedbench.testing.runs import finished, resumed, same

Make = Callable[..., TrialConfig]
CENTRALISED, LOCAL = {"method__name": "centralised"}, {"method__name": "local_only"}
WORK: dict[str, Any] = {"clients__participation": 0.6, "clients__epochs": 2, "clients__straggler": 0.5}


@given(n=st.integers(1, 70), epochs=st.integers(1, 3), size=st.integers(1, 40), least=st.integers(1, 2))
def test_the_steps_of_a_plan_are_counted_without_drawing_it(n: int, epochs: int, size: int, least: int) -> None:
    order = draw_order(np.arange(n), epochs, np.random.default_rng(0))
    assert plan_steps(n, epochs, size, least) == cut_plan(torch.from_numpy(order), size, least).steps


@given(n=st.integers(1, 50), samples=st.integers(1, 200))
def test_a_stream_is_one_permutation_after_the_other(n: int, samples: int) -> None:
    stream = draw_stream(np.arange(n), samples, np.random.default_rng(0))
    assert stream.shape == (1, samples)
    for start in range(0, samples, n):
        part = stream[0, start : start + n]
        assert len(set(part.tolist())) == len(part)


def test_centralised_training_takes_as_many_steps_a_round_as_all_its_clients_together(tiny: Make) -> None:
    federated, central = Simulation(tiny(**WORK)), Simulation(tiny(**WORK, **CENTRALISED))
    assert federated.least_batch == central.least_batch == 1
    for t in range(1, 6):
        wanted = sum(plan.steps for plan in federated.plans.of(t, federated.clients_of(t)))
        (plan,) = central.plans.of(t, central.clients_of(t))
        assert plan.steps == wanted > 0
        assert plan.full.shape[2] == 32 and not plan.rest.numel()


def test_centralised_training_draws_from_the_data_of_all_clients(tiny: Make) -> None:
    run = Simulation(tiny(**CENTRALISED, clients__holdout=0.2, clients__epochs=3))
    shards = run.federation.split.shards
    (plan,) = run.plans.of(1, run.clients_of(1))
    everything = sorted(np.concatenate(shards[:-1]).tolist())
    assert sorted(set(plan.full.flatten().tolist())) == everything
    first = plan.full.flatten()[: len(everything)].tolist()
    assert sorted(first) == everything, "each sample once before any one twice"


def test_centralised_training_of_one_client_with_full_batches_is_fedavg(tiny: Make) -> None:
    """A limit: with one client whose samples fill its batches and one epoch, only the drawing differs."""
    settings: dict[str, Any] = {"clients__count": 1, "data__partition": "iid", "data__train_size": 320, "rounds": 2}
    settings |= {"clients__epochs": 1}
    one, other = Simulation(tiny(**settings)), Simulation(tiny(**settings, **CENTRALISED))
    while not one.done:
        t = one.state.round + 1
        other.plans.drawn[t, 1] = one.plans.of(t, (0,))[0]  # the same batches
        first, second = one.step(), other.step()
        assert torch.equal(one.state.w, other.state.w)
        assert (first.test_accuracy, first.train_loss) == (second.test_accuracy, second.train_loss)


def test_a_local_model_is_what_its_client_trains_alone(tiny: Make) -> None:
    """A limit: with one client, local only is FedAvg; with several, each client's run does not depend on the others."""
    alone = {"clients__count": 1, "data__partition": "iid", "rounds": 3}
    one, other = finished(Simulation(tiny(**alone))), finished(Simulation(tiny(**alone, **LOCAL)))
    assert other.state.client_models is not None
    assert torch.equal(one.state.w, other.state.client_models[0])
    assert [r.test_accuracy for r in one.state.history] == [r.test_accuracy for r in other.state.history]


def test_clients_on_their_own_take_the_steps_of_federated_training_from_their_own_models(tiny: Make) -> None:
    federated, local = Simulation(tiny(**WORK)), Simulation(tiny(**WORK, **LOCAL))
    initial = local.state.w
    for t in range(1, 4):
        federated.step()
        before = local.state.own_models
        record = local.step()
        assert record.clients == federated.clients_of(t)
        for mine, theirs in zip(local.plans.of(t, record.clients), federated.plans.of(t, record.clients), strict=True):
            assert torch.equal(mine.full, theirs.full)
        for client, ((old, _), (new, _)) in enumerate(zip(before, local.state.own_models, strict=True)):
            assert torch.equal(old, new) == (client not in record.clients)
    assert torch.equal(local.state.w, initial), "there is no global model"


def test_the_score_of_clients_on_their_own_is_the_mean_over_their_models(tiny: Make) -> None:
    run = Simulation(tiny(**LOCAL, data__validation=0.2))
    record = run.step()
    scores = [evaluate(run.model, w, buffers, run.federation.test) for w, buffers in run.state.own_models]
    assert len(scores) == 5
    assert record.test_accuracy == pytest.approx(np.mean([score.accuracy for score in scores]), abs=1e-12)
    assert record.test_loss == pytest.approx(np.mean([score.loss for score in scores]), abs=1e-12)
    assert record.validation_accuracy is not None


@pytest.mark.parametrize("method", [CENTRALISED, LOCAL])
@pytest.mark.parametrize("model", ["mlp", "resnet8"])
def test_bounds_resume_and_send_nothing(tiny: Make, method: dict[str, str], model: str) -> None:
    made = tiny(**method, **WORK, model=model, data__train_size=90, data__test_size=60)
    run = finished(Simulation(made))
    assert same(run, resumed(made, 2))
    assert run.traffic() == (0, 0)


def test_local_statistics_stay_with_their_clients(tiny: Make) -> None:
    small = {"model": "resnet8", "data__train_size": 90, "data__test_size": 60}
    run = finished(Simulation(tiny(**LOCAL, **small)))
    assert run.config.bn == "local"
    buffers = [buffers for _, buffers in run.state.own_models]
    assert not any(torch.equal(buffers[0], other) for other in buffers[1:])
    with pytest.raises(ConfigError, match="bn = average: nothing is sent with"):
        tiny(**LOCAL, **small, bn="average")


def stored(store: Store, config: TrialConfig) -> StoredTrial:
    return execute(config, store, None)


def test_clients_on_their_own_are_scored_on_their_own_mix(tiny: Make, tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = tiny(**LOCAL, rounds=2)
    found = client_accuracies(stored(store, made))
    assert found is not None and not found.measured
    run = finished(Simulation(made))
    labels, counts = run.federation.test.labels, run.federation.split.class_counts
    for client, (w, buffers) in enumerate(run.state.own_models):
        right = torch.cat(
            [logits.argmax(1) == y for logits, y in predictions(run.model, w, buffers, run.federation.test)]
        )
        by_class = np.array([float(right[labels == label].double().mean()) for label in range(10)])
        assert found.accuracy[client] == pytest.approx(counts[client] / counts[client].sum() @ by_class)
    held = client_accuracies(stored(store, tiny(**LOCAL, rounds=2, clients__holdout=0.3)))
    assert held is not None and held.measured and len(held.clients) == 5


def test_the_share_of_the_gap_that_is_closed() -> None:
    assert gap_closed(80.0, 60.0, 90.0) == pytest.approx(200 / 3)
    assert gap_closed(60.0, 60.0, 90.0) == 0
    assert gap_closed(90.0, 60.0, 90.0) == 100
    assert gap_closed(0.5, 2.0, 0.5, -1) == 100, "a loss is better the lower it is"
    assert gap_closed(80.0, 90.0, 60.0) is None, "centralised training is worse: there is no gap to close"
    assert gap_closed(80.0, None, 90.0) is None
    assert METRICS.get("gap_closed").read(SimpleNamespace()) is None


STUDY = """
title: Bounds of mine
shows: Something.
base: {data.train_size: 300, data.test_size: 200, clients.count: 3, rounds: 2, clients.epochs: 1}
grid:
  data.alpha: [100, 1]
  method:
    FedAvg: {method.name: fedavg}
    FedProx: {method.name: fedprox}
    centralised: {method.name: centralised}
    local only: {method.name: local_only}
seeds: [8, 9]
tables:
  gap: {rows: [method], columns: [data.alpha], value: [gap_closed, gap_closed_worst_client]}
claims:
  - {says: it closes, check: beats, value: gap_closed, point: {method: FedProx}, against: {method: FedAvg}}
scales:
  quick: {}
"""


def test_the_gap_is_that_of_the_same_seed_and_the_same_other_settings(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(STUDY)
    study = expand(str(tmp_path / "mine.yaml"), "quick", changes={}, only={}, seeds=None)
    store = Store(tmp_path / "store")
    trials = {hash_: stored(store, config) for hash_, config in study.trials.items()}
    for alpha in (100, 1):
        of = {name: study.by_labels[alpha, name] for name in ("FedAvg", "centralised", "local only")}
        accuracy = {name: plain_values([cell], trials, "test_accuracy") for name, cell in of.items()}
        expected = {
            seed: gap_closed(own, accuracy["local only"][seed], accuracy["centralised"][seed])
            for seed, own in accuracy["FedAvg"].items()
        }
        assert plain_values([of["FedAvg"]], trials, "gap_closed") == expected
        assert set(plain_values([of["centralised"]], trials, "gap_closed").values()) == {100.0}
        assert set(plain_values([of["local only"]], trials, "gap_closed").values()) == {0.0}
    without = {hash_: trial for hash_, trial in trials.items() if study.trials[hash_].method.name != "centralised"}
    assert plain_values([study.by_labels[1, "FedAvg"]], without, "gap_closed") == {}


def test_a_study_that_shows_the_gap_needs_the_bounds(tmp_path: Path) -> None:
    text = STUDY.replace("    local only: {method.name: local_only}\n", "")
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"tables\.gap: gap_closed compares with method\.name=local_only, which the"):
        expand(str(tmp_path / "mine.yaml"), "quick", changes={}, only={}, seeds=None)


def test_a_bound_has_no_aggregate_to_shrink(tiny: Make) -> None:
    with pytest.raises(ConfigError, match=r"method\.inner\.name = local_only: has no aggregate to shrink"):
        tiny(method__name="fedlws", method__inner={"name": "local_only"})
