"""Metrics of hand-made trials."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedbench.metrics import METRICS


@dataclass
class Trial:
    summary: dict[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    proxy: Mapping[str, Any] = field(default_factory=dict)
    clients: Mapping[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> Mapping[str, Any]:
        return {"proxy": self.proxy, "clients": self.clients}

    def table(self, name: str) -> pd.DataFrame:
        return self.tables.get(name, pd.DataFrame())


def read(name: str, trial: Trial) -> float | None:
    return METRICS.get(name).read(trial)


@pytest.mark.parametrize("name", list(METRICS))
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


def rounds(**columns: Any) -> Trial:
    table = pd.DataFrame(columns)
    return Trial(tables={"rounds": table.assign(round=range(1, len(table) + 1))})


def test_a_column_can_be_taken_early_in_the_first_half_or_over_all_rounds() -> None:
    trial = rounds(norm_opt=[8.0] * 4 + [4.0] * 16 + [1.0] * 20, test_accuracy=[0.2] * 20 + [0.6] * 20)
    assert read("early_norm_opt", trial) == 8.0
    assert read("first_half_norm_opt", trial) == pytest.approx((8 * 4 + 4 * 16) / 20)
    assert read("late_norm_opt", trial) == 1.0
    assert read("mean_test_accuracy", trial) == pytest.approx(40.0), "in percent"
    assert "mean_no_such_column" not in METRICS


def test_an_indicators_column_goes_by_rounds_too() -> None:
    table = pd.DataFrame({"round": range(10, 201, 10), "name": "hessian_top1", "value": [9.0] * 2 + [1.0] * 18})
    trial = Trial(tables={"indicators": table})
    assert read("early_hessian_top1", trial) == 9.0
    assert read("mean_hessian_top1", trial) == pytest.approx((9 * 2 + 18) / 20)


def test_a_fall_is_from_the_best_ten_rounds_to_the_last() -> None:
    accuracy = [0.5] * 10 + [0.8] + [0.6] * 10 + [0.55] * 10  # one lucky round is no peak
    assert read("fall_test_accuracy", rounds(test_accuracy=accuracy)) == pytest.approx(62 - 55)
    assert read("fall_test_accuracy", rounds(test_accuracy=np.linspace(0.1, 0.9, 30))) == pytest.approx(0.0)


def test_jumps_are_those_of_the_second_half() -> None:
    accuracy = [0.1, 0.9] * 5 + [0.5, 0.52] * 5
    assert read("jumps_test_accuracy", rounds(test_accuracy=accuracy)) == pytest.approx(2.0)
    assert read("jumps_test_accuracy", rounds(test_accuracy=[0.5])) is None


def test_variation_leaves_out_the_beginning_and_outliers() -> None:
    r = [500.0] * 2 + [19.0, 20.0, 21.0] * 6
    assert read("variation_r", rounds(r=r)) == pytest.approx(100 * 1.4826 / 20)
    assert read("variation_r", rounds(r=[*r[:-1], 1e9])) == pytest.approx(100 * 1.4826 / 20)
    assert read("variation_r", rounds(r=np.zeros(20))) is None


def test_skewness_of_several_trials_is_that_of_all_their_rounds() -> None:
    low, high = rounds(r=np.linspace(0.0, 1.0, 101)), rounds(r=np.linspace(9.0, 10.0, 101) ** 3)
    assert read("skewness_r", low) == pytest.approx(0.0)
    pool = METRICS.get("skewness_r").pool
    assert pool is not None
    assert pool([low, low]) == pytest.approx(0.0)
    assert (pool([low, low, high]) or 0) > 0.5
    assert read("skewness_r", rounds(r=np.ones(20))) is None


def test_what_is_gained_at_the_critical_point_is_counted_from_chance() -> None:
    tables = {
        "rounds": pd.DataFrame({"round": [1, 2, 3, 4], "test_accuracy": [0.1, np.nan, 0.5, 0.6]}),
        "partition": pd.DataFrame({"client": 0, "class": range(10), "samples": 5}),
    }
    trial = Trial({"critical_round": 2, "final_accuracy": 0.6}, tables)
    assert read("gained_at_critical", trial) == pytest.approx(80.0)
    assert read("gained_at_critical", Trial({"critical_round": None, "final_accuracy": 0.6}, tables)) is None
    assert read("gained_at_critical", Trial({"critical_round": 2, "final_accuracy": 0.1}, tables)) is None


def test_a_model_that_explodes_when_rescaled_does_not_stay_similar() -> None:
    steady = pd.DataFrame({"gamma": [0.5, 0.9, 0.98, 1.0, 1.1], "loss": [9.0, 1.05, 1.01, 1.0, 7.0]})
    assert read("rescaling_change", Trial(tables={"rescaled": steady})) == pytest.approx(5.0)
    steep = steady.assign(loss=[9.0, 3.0, 1.5, 1.0, 7.0])
    assert read("rescaling_change", Trial(tables={"rescaled": steep})) == pytest.approx(200.0)
    assert (read("rescaling_gain", Trial(tables={"rescaled": steep})) or 0) < 0, "which is not a gain"


def test_curvature_and_best_weights_are_those_of_a_known_landscape() -> None:
    grid = [(i / 20, j / 20, (20 - i - j) / 20) for i in range(21) for j in range(21 - i)]
    towards, across = np.array([2, -1, -1]) / 6**0.5, np.array([0, 1, -1]) / 2**0.5
    rows = []
    for number, best in enumerate([(0.6, 0.2, 0.2), (0.5, 0.2, 0.3), (0.4, 0.3, 0.3)], start=1):
        for weights in grid:
            step = np.array(weights) - best
            rows.append((number, *weights, 3 * (step @ towards) ** 2 + 0.5 * (step @ across) ** 2))
    table = pd.DataFrame(rows, columns=["round", "lambda_0", "lambda_1", "lambda_2", "loss"])
    trial = Trial(tables={"simplex": table})
    assert read("curvature_0", trial) == pytest.approx(6.0)
    assert read("curvature_12", trial) == pytest.approx(1.0)
    assert read("curvature_plane", trial) == pytest.approx(7.0)
    assert read("best_lambda_0", trial) == pytest.approx(0.5)
    assert read("best_off_centre", trial) == pytest.approx(np.linalg.norm(np.array([0.5, 0.7 / 3, 0.8 / 3]) - 1 / 3))
    assert read("best_skewness_0", trial) == pytest.approx(0.0, abs=1e-9)


def test_the_spread_over_draws_is_that_of_a_pool_without_end() -> None:
    # Accuracy as the mean of something over the drawn images: then the correction is exact, whatever the pool.
    rng = np.random.default_rng(1)
    images, pool = rng.normal(0.5, 0.1, 400), METRICS.get("draw_spread").pool
    assert pool is not None
    for size in (40, 200, 360):
        proxy = {"size": size, "pool": len(images)}
        draws = [float(rng.permutation(images)[:size].mean()) for _ in range(4000)]
        found = pool([Trial({"final_accuracy": value}, proxy=proxy) for value in draws])
        assert found == pytest.approx(100 * images.std() / size**0.5, rel=0.05)
    whole = {"size": 50, "pool": None}
    assert pool([Trial({"final_accuracy": value}, proxy=whole) for value in (0.5, 0.6)]) is None


def every(step: int, values: Any, total: int = 100) -> Trial:
    """A run that recorded something in every so many rounds; rounds.csv has a row for all, indicators.csv has not."""
    recorded = range(step, total + 1, step)
    table = pd.DataFrame({"round": range(1, total + 1), "test_accuracy": np.nan}).set_index("round")
    table.loc[list(recorded), "test_accuracy"] = values
    indicators = pd.DataFrame({"round": recorded, "name": "lambda_balanced", "value": values})
    return Trial({"rounds": total}, {"rounds": table.reset_index(), "indicators": indicators})


def test_the_last_ten_rounds_are_rounds_not_the_last_ten_that_were_recorded() -> None:
    trial = every(5, [0.2] * 18 + [0.4, 0.6])  # rounds 5, 10, ... 95, 100
    assert read("late_test_accuracy", trial) == pytest.approx(50.0)
    assert read("balanced_late", trial) == pytest.approx(0.5)
    ended = every(45, [0.2, 0.4])  # rounds 45 and 90 of 100
    assert read("late_test_accuracy", ended) is None
    assert read("balanced_late", ended) is None


def test_the_first_two_rounds_are_rounds_not_the_first_two_that_were_recorded() -> None:
    assert read("balanced_early", every(1, [0.2, 0.4] + [0.9] * 98)) == pytest.approx(0.3)
    assert read("balanced_early", every(2, [0.2] + [0.9] * 49)) == pytest.approx(0.2)
    assert read("balanced_early", every(5, [0.2] + [0.9] * 19)) is None


def test_a_fall_is_over_ten_rounds_however_few_of_them_are_recorded() -> None:
    accuracy = [0.5] * 10 + [0.8, 0.8] + [0.5] * 8  # rounds 55 and 60 of 100, in every fifth round
    assert read("fall_test_accuracy", every(5, accuracy)) == pytest.approx(30.0)


def test_a_run_that_is_no_longer_than_the_window_cannot_fall() -> None:
    for length in (3, 10):
        assert read("fall_test_accuracy", rounds(test_accuracy=[0.9] * (length - 1) + [0.1])) is None
    assert read("fall_test_accuracy", rounds(test_accuracy=[0.9] * 10 + [0.1])) == pytest.approx(8.0)


def test_a_jump_is_from_a_round_to_the_next_one() -> None:
    assert read("jumps_test_accuracy", every(5, [0.1, 0.9] * 10)) is None
    table = every(5, [0.1, 0.9] * 10).table("rounds")
    table.loc[97:, "test_accuracy"] = [0.50, 0.52, 0.50]  # the last three rounds are all recorded
    assert read("jumps_test_accuracy", Trial({"rounds": 100}, {"rounds": table})) == pytest.approx(2.0)


def test_heterogeneity_of_trials_stored_without_it_comes_from_their_partition() -> None:
    cells = [(0, 0, 30), (0, 1, 0), (1, 0, 0), (1, 1, 10), (2, 0, 5), (2, 1, 5)]  # the last is the proxy set
    table = pd.DataFrame(cells, columns=["client", "class", "samples"])
    trial = Trial(tables={"partition": table}, clients={"count": 2})
    assert read("label_distance", trial) == pytest.approx(0.5)
    assert read("effective_clients", trial) == pytest.approx(1.6)
    assert read("largest_client", trial) == 30
    assert read("label_distance", Trial({"label_distance": 0.25}, {"partition": table}, clients={"count": 2})) == 0.25
