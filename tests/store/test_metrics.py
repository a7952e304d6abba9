"""Metrics of hand-made trials."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedbench.store.metrics import METRICS


@dataclass
class Trial:
    summary: dict[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def table(self, name: str) -> pd.DataFrame:
        return self.tables.get(name, pd.DataFrame())


def read(name: str, trial: Trial) -> float | None:
    return METRICS.get(name).read(trial)


@pytest.mark.parametrize("name", METRICS)
def test_a_trial_without_the_data_has_no_value(name: str) -> None:
    assert read(name, Trial()) is None


def test_accuracies_are_percent() -> None:
    rounds = pd.DataFrame({"round": range(1, 21), "test_accuracy": [0.1] * 2 + [0.5] * 18})
    trial = Trial({"final_accuracy": 0.5}, {"rounds": rounds})
    assert read("test_accuracy", trial) == 50.0
    assert read("early_accuracy", trial) == pytest.approx(10.0)


def test_early_goes_by_rounds_not_by_how_many_were_scored() -> None:
    rounds = pd.DataFrame({"round": range(1, 201), "test_accuracy": np.nan})
    rounds.loc[9::10, "test_accuracy"] = [0.1, 0.2] + [0.9] * 18
    assert read("early_accuracy", Trial(tables={"rounds": rounds})) == pytest.approx(15.0)
    assert read("early_accuracy", Trial(tables={"rounds": rounds[99:]})) == pytest.approx(90.0)


def test_before_the_critical_point_is_all_of_it_where_there_is_none() -> None:
    table = pd.DataFrame({"round": [1, 2, 3, 4], "name": "coherence_mean_balanced", "value": [0.4, 0.2, 0.1, 0.1]})
    tables = {"indicators": table}
    assert read("coherence_early_balanced", Trial({"critical_round": 3}, tables)) == pytest.approx(0.3)
    assert read("coherence_early_balanced", Trial({"critical_round": None}, tables)) == pytest.approx(0.2)
    assert read("coherence_early_balanced", Trial({"critical_round": 1}, tables)) is None


def test_late_means_the_last_ten_rounds() -> None:
    trial = Trial(tables={"rounds": pd.DataFrame({"round": range(30), "coherence_mean": [0.3] * 20 + [-0.1] * 10})})
    assert read("coherence_late", trial) == pytest.approx(-0.1)
    assert read("coherence_peak", trial) == pytest.approx(0.3)


def test_the_weight_of_corrupted_clients_is_taken_against_their_data() -> None:
    clients = pd.DataFrame(
        {"round": [1, 1, 2, 2], "client": [0, 1, 0, 1], "lambda": [0.5, 0.5, 0.25, 0.75], "samples": [10, 10, 10, 10]}
    )
    assert read("weight_of_corrupted", Trial({"swapped_labels": {"0": [1, 2]}}, {"clients": clients})) == pytest.approx(
        (1.0 + 0.5) / 2
    )


def test_any_corruption_says_who_is_corrupted() -> None:
    clients = pd.DataFrame({"round": 1, "client": [0, 1], "lambda": [0.2, 0.8], "samples": [10, 10]})
    summary = {"corrupted_clients": [0], "swapped_labels": {}}
    assert read("weight_of_corrupted", Trial(summary, {"clients": clients})) == pytest.approx(0.4)
    assert read("weight_of_corrupted", Trial(summary)) is None, "a method without weights"
    nobody = Trial({"corrupted_clients": [], "swapped_labels": {}}, {"clients": clients})
    assert read("weight_of_corrupted", nobody) is None


def test_convergence_is_the_first_epoch_that_stays_within_five_percent_of_the_way() -> None:
    gamma = [0.9, 0.5, 0.1, 0.03, 0.01, 0.0]  # the way left is 0.9 at first: 5 % of it is 0.045
    path = pd.DataFrame({"round": 1, "epoch": range(1, 7), "gamma": gamma})
    assert read("gamma_epochs", Trial(tables={"server_path": path})) == 4


def test_pooled_correlations_are_over_the_clients_of_all_trials() -> None:
    def trial(weights: list[float], sizes: list[int]) -> Trial:
        counts = [(i, c, size * (1 + i + c)) for i, size in enumerate(sizes) for c in (0, 1)]
        partition = pd.DataFrame(counts, columns=["client", "class", "samples"])
        clients = pd.DataFrame({"round": 1, "client": range(len(weights)), "lambda": weights})
        return Trial(tables={"partition": partition, "clients": clients})

    trials = [trial([0.2, 0.3, 0.5], [10, 20, 30]), trial([0.6, 0.3, 0.1], [12, 22, 34])]
    sizes = [size * (3 + 2 * i) for sizes in ([10, 20, 30], [12, 22, 34]) for i, size in enumerate(sizes)]
    wanted = np.corrcoef([0.2, 0.3, 0.5, 0.6, 0.3, 0.1], sizes)[0, 1]
    pool = METRICS.get("pearson_size").pool
    assert pool is not None
    assert pool(trials) == pytest.approx(wanted)


def test_the_best_weight_on_the_simplex_is_where_the_loss_is_smallest() -> None:
    weights = {"lambda_0": [0.0, 1.0, 0.5, 1.0], "lambda_1": [1.0, 0.0, 0.25, 0.0], "lambda_2": [0.0, 0.0, 0.25, 0.0]}
    simplex = pd.DataFrame({"round": [1, 1, 2, 2], **weights, "loss": [2.0, 1.0, 1.0, 3.0]})
    trial = Trial(tables={"simplex": simplex})
    assert read("best_lambda_0", trial) == pytest.approx(0.75)
    assert read("best_spread_12", trial) == 0  # both best points are as far from client 1 as from client 2
    assert read("best_spread_0", trial) == pytest.approx(0.5 * np.linalg.norm([0.5, -0.25, -0.25]))


def test_the_rescaling_gain_is_the_fall_of_the_loss() -> None:
    table = pd.DataFrame({"gamma": [0.98, 1.0], "loss": [0.4, 0.5]})
    assert read("rescaling_gain", Trial(tables={"rescaled": table})) == pytest.approx(0.1)


def test_costs_are_seconds_and_megabytes() -> None:
    parts = {"seconds_train": 3.0, "seconds_server": 0.5, "seconds_eval": 1.0}
    trial = Trial({**parts, "bytes_up": 3_000_000, "bytes_down": 1_000_000})
    assert (read("seconds", trial), read("server_seconds", trial), read("megabytes", trial)) == (4.5, 0.5, 4.0)


def test_any_accuracy_can_be_the_target() -> None:
    rounds = pd.DataFrame({"round": [1, 2, 3], "test_accuracy": [0.3, np.nan, 0.625]})
    trial = Trial(tables={"rounds": rounds})
    assert (read("rounds_to_30", trial), read("rounds_to_62.5", trial), read("rounds_to_63", trial)) == (1, 3, None)
    assert "rounds_to_soon" not in METRICS


def test_any_column_or_indicator_is_a_metric_of_the_last_rounds() -> None:
    rounds = pd.DataFrame({"round": range(1, 21), "test_accuracy": [0.1] * 10 + [0.5] * 10})
    indicators = pd.DataFrame({"round": range(1, 21), "name": "hessian_top1", "value": [9.0] * 10 + [2.0] * 10})
    trial = Trial(tables={"rounds": rounds, "indicators": indicators})
    assert read("late_test_accuracy", trial) == pytest.approx(50.0)
    assert read("late_hessian_top1", trial) == pytest.approx(2.0)
    assert "late_nonsense" not in METRICS
