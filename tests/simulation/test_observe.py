from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedbench import TrialConfig, UserError, simulate
from fedbench.base.errors import ConfigError
from fedbench.base.fields import Strict
from fedbench.indicators.base import Indicator, Observation, RoundContext, register_indicator
from fedbench.methods import METHODS, Cohort, Server, Update
from fedbench.methods.base import State, size_weighted
from fedbench.methods.fedavg import FedAvg
from fedbench.metrics import METRICS
from fedbench.simulation import Record, Simulation
from fedbench.simulation.observe import final_tables
from fedbench.simulation.record import columns
from fedbench.store.execute import execute
from fedbench.store.store import Store

Make = Callable[..., TrialConfig]


def indicators(record: Record) -> dict[str, Any]:
    return dict(record.indicators)


def test_pairs_are_recorded_on_request_and_agree_with_the_cohorts_value(tiny: Make) -> None:
    record = next(iter(simulate(tiny(indicators__coherence="pairwise"))))
    rows = record.tables["coherence"]
    assert len(rows) == 10
    weights = dict(zip(record.clients, record.lambda_, strict=True))
    total = 2 * sum(weights[i] * weights[j] * cosine for i, j, cosine in rows)  # type: ignore[index, operator, misc]
    assert total / 5 == pytest.approx(record.coherence_def, abs=1e-6)


def test_coherence_can_be_left_out(tiny: Make) -> None:
    record = next(iter(simulate(tiny(indicators__coherence="off"))))
    assert record.coherence_mean is None


def test_a_hybrid_partition_records_both_groups(tiny: Make) -> None:
    record = next(iter(simulate(tiny(data__partition="hybrid", clients__count=6))))
    found = indicators(record)
    assert found["lambda_balanced"] + found["lambda_imbalanced"] == pytest.approx(1)
    assert found["lambda_balanced"] == pytest.approx(sum(record.lambda_[:3]))
    assert found["coherence_mean_balanced"] > found["coherence_mean_imbalanced"]


def test_full_participation_by_size_is_heterogeneity_coherent(tiny: Make) -> None:
    found = indicators(next(iter(simulate(tiny(data__alpha=0.2)))))
    assert found["heterogeneity_coherence"] == pytest.approx(1)
    partial = indicators(next(iter(simulate(tiny(data__alpha=0.2, clients__participation=0.4)))))
    assert partial["heterogeneity_coherence"] < 0.95


def test_hessian_eigenvalues_come_on_schedule_and_in_the_last_round(tiny: Make) -> None:
    records = list(simulate(tiny(indicators__hessian_every=2, indicators__hessian_samples=50)))
    have = [record.round for record in records if "hessian_top1" in indicators(record)]
    assert have == [2, 3]
    assert indicators(records[-1])["hessian_top1"] > 0
    assert indicators(records[-1])["hessian_top1_top5"] >= 1


def test_a_loss_without_any_curvature_has_eigenvalues_of_zero_and_no_ratio(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def aggregate(self: FedAvg, cohort: Cohort, state: State, server: Server) -> Update:
        w = torch.zeros_like(cohort.w)
        w[-10] = 1000.0  # the bias of one class: all predictions are certain
        return replace(size_weighted(cohort), w=w)

    monkeypatch.setattr(FedAvg, "aggregate", aggregate)
    (record,) = simulate(tiny(rounds=1, indicators__hessian_every=1, indicators__hessian_samples=50))
    found = indicators(record)
    assert (found["hessian_top1"], found["hessian_top5"], found["hessian_top1_top5"]) == (0.0, 0.0, None)


class BrokenSettings(Strict):
    broken: bool = False


class Broken(Indicator[BrokenSettings]):
    name = "broken"
    Settings = BrokenSettings

    def observe(self, settings: BrokenSettings, context: RoundContext) -> Observation:
        return Observation({"x": 1 / 0}) if settings.broken else Observation()


@pytest.mark.usefixtures("forgotten")
def test_a_trial_that_fails_by_an_indicator_names_it_in_its_reason(tiny: Make, tmp_path: Path) -> None:
    register_indicator(version="1")(Broken)
    stored = execute(tiny(rounds=1, indicators__broken=True), Store(tmp_path), None)
    assert stored.status == "failed"
    assert stored.reason == "indicator 'broken': observe failed (ZeroDivisionError: division by zero)"
    assert "1 / 0" in (stored.path / "traceback.txt").read_text()


def test_the_hessian_changes_no_result(tiny: Make) -> None:
    watched = list(simulate(tiny(indicators__hessian_every=1, indicators__hessian_samples=50)))
    assert [r.test_loss for r in watched] == [r.test_loss for r in simulate(tiny())]


def test_the_server_path_is_recorded_on_request(tiny: Make) -> None:
    settings = {"method__name": "fedlaw", "method__epochs": 4, "rounds": 1}
    (record,) = simulate(tiny(**settings, indicators__server_path=True))
    assert [row[0] for row in record.tables["server_path"]] == [1, 2, 3, 4]
    assert record.tables["server_path"][-1][1] == record.gamma
    last = [row[2] for row in record.tables["server_lambda"] if row[0] == 4]
    assert last == pytest.approx(record.lambda_)
    (plain,) = simulate(tiny(**settings))
    assert "server_path" not in plain.tables


def test_every_indicator_has_a_name_that_plots_know(tiny: Make) -> None:
    size = {"data__partition": "hybrid", "data__train_size": 600, "clients__count": 6}
    config = tiny(
        **size,
        **{"clients__corrupted": 0.5, "clients__straggler": 0.5, "clients__epochs": 2, "data__validation": 0.1},
        indicators__hessian_every=3,
        indicators__client_validation=True,
    )
    names = {name for record in simulate(config) for name in record.indicators}
    scores = {item.name for item in fields(Record)}
    of_methods = {name for _, method in METHODS.items() for name in method.metrics}
    assert names == columns().keys() - scores - of_methods


def test_the_simplex_of_three_clients_is_scored_on_a_grid(tiny: Make) -> None:
    settings = {"data__partition": "three_node", "clients__count": 3}
    record = list(simulate(tiny(**settings, indicators__simplex_every=3, indicators__simplex_grid=4)))[-1]
    rows = record.tables["simplex"]
    assert len(rows) == 15
    assert all(sum(row[:3]) == pytest.approx(1) for row in rows)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs three clients"):
        tiny(indicators__simplex_every=1)


def test_the_simplex_holds_the_aggregated_model(tiny: Make) -> None:
    config = tiny(
        data__partition="three_node", clients__count=3, indicators__simplex_every=1, indicators__simplex_grid=3
    )
    record = next(iter(simulate(config)))
    (middle,) = (row for row in record.tables["simplex"] if max(row[:3]) < 0.5)  # type: ignore[type-var, operator]
    assert middle[3] == pytest.approx(record.test_loss, rel=1e-5)  # all three clients have one size
    assert middle[4] == record.test_accuracy


def test_the_proxy_set_as_a_client_takes_part_in_every_round(tiny: Make) -> None:
    config = tiny(method__proxy_client=True, clients__participation=0.4)
    assert config.uses_proxy
    records = list(simulate(config))
    assert all(record.clients[-1] == 5 and len(record.clients) == 3 for record in records)
    assert all(record.samples[-1] == 20 for record in records)
    plain = list(simulate(tiny(clients__participation=0.4)))
    assert [record.clients[:-1] for record in records] == [record.clients for record in plain]


def test_a_repeated_proxy_set_has_the_weight_and_the_steps_of_an_average_client(tiny: Make) -> None:
    settings = {"data__alpha": 0.5, "clients__holdout": 0.3, "method__proxy_client": "repeated"}
    run = Simulation(tiny(**settings))
    *clients, proxy = map(len, run.federation.split.shards)
    assert proxy == round(sum(clients) / len(clients)) > 20
    assert set(run.federation.split.shards[-1]) == set(range(len(run.federation.train) - 20, len(run.federation.train)))
    record = run.step()
    assert record.samples[-1] == round(sum(record.samples[:-1]) / 5) == 60
    assert record.lambda_[-1] == pytest.approx(1 / 6)
    assert TrialConfig(**{"method.proxy_client": "repeated"}).hash != TrialConfig(**{"method.proxy_client": True}).hash
    large = Simulation(tiny(**settings, proxy__size=100)).federation.split
    assert (len(large.shards[-1]), large.sizes[-1]) == (100, 100), "a proxy set that is larger stays as it is"


def test_uniform_weights_are_the_same_for_every_client(tiny: Make) -> None:
    run = Simulation(tiny(data__alpha=0.5, method__weights="uniform"))
    record = run.step()
    assert len(set(record.samples)) > 1
    assert record.lambda_ == pytest.approx([1 / 5] * 5)


def test_the_final_model_is_described(tiny: Make) -> None:
    simulation = Simulation(tiny(indicators__landscape=True, indicators__hessian_samples=50))
    while not simulation.done:
        simulation.step()
    tables = {name: rows for name, (_, rows) in final_tables(simulation).items()}
    last = simulation.state.history[-1]
    right = sum(row[1] * row[2] for row in tables["classes"])  # type: ignore[misc, operator]
    assert right / 180 == pytest.approx(last.test_accuracy)
    assert sum(row[2] for row in tables["histogram"]) == 199_210  # type: ignore[misc]
    assert dict((row[0], row[1]) for row in tables["rescaled"])[1.0] == pytest.approx(last.test_loss)
    losses = [row[1] for row in tables["landscape"]]
    assert losses[10] < losses[0]  # type: ignore[operator]
    assert "rescaled" not in final_tables(Simulation(tiny()))


def test_a_method_may_record_numbers_of_its_own(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def aggregate(self: FedAvg, cohort: Cohort, state: State, server: Server) -> Update:
        return replace(size_weighted(cohort), metrics={"heaviest": float(cohort.p.max())})

    monkeypatch.setattr(FedAvg, "aggregate", aggregate)
    with pytest.raises(UserError, match="method 'fedavg' records 'heaviest' without declaring it in its metrics"):
        next(iter(simulate(tiny())))
    monkeypatch.setattr(FedAvg, "metrics", {"heaviest": "largest weight"})
    records = list(simulate(tiny()))
    assert [record.heaviest for record in records] == [pytest.approx(max(record.lambda_)) for record in records]
    assert columns()["heaviest"].label == "largest weight"
    assert METRICS.get("late_heaviest").label == "largest weight, last 10 rounds"
