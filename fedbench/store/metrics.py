"""Metrics: one number a trial, each with its reducer over rounds, its unit and its digits.

A metric reads what a finished trial left behind (its summary and its tables) and gives a float, or None where it is
not defined. Accuracies are percent here, as everywhere that people look at tables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbench.config.trial import LAST_ROUNDS
from fedbench.indicators.heterogeneity import class_shares, heterogeneity_degree, weight_correlations

Floats = NDArray[np.float64]
EARLY = 0.1  # the share of all rounds that "early" means
CONVERGED = 0.05  # a learned weight has converged once so much of its way, or less, is left
RESCALED_BY = 0.98  # of the gammas that the rescaled loss is computed at, the one that metrics look at


class TrialData(Protocol):
    """What a metric may look at."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """What summary.json holds."""
        ...

    def table(self, name: str) -> pd.DataFrame:
        """One of the trial's CSV files, without its suffix; empty if there is none."""
        ...


Reader = Callable[[TrialData], float | None]


@dataclass(frozen=True)
class Metric:
    """`label`: name and unit, for axes; `digits` after the point; `pool`: the metric of several trials together.

    `better`: the one of several values that is the best, where there is such a thing.
    """

    label: str
    read: Reader
    digits: int = 2
    pool: Callable[[Sequence[TrialData]], float | None] | None = None
    better: Literal["higher", "lower"] | None = None


def summary(key: str, factor: float = 1.0) -> Reader:
    """A number of the summary."""

    def read(trial: TrialData) -> float | None:
        value = trial.summary.get(key)
        return None if value is None else factor * value

    return read


def column(name: str, reduce: Callable[["pd.Series[float]"], float], factor: float = 1.0) -> Reader:
    """A reduction of a column of rounds.csv, by round."""

    def read(trial: TrialData) -> float | None:
        rounds = trial.table("rounds")
        values = rounds.set_index("round")[name].dropna() if name in rounds else pd.Series(dtype=float)
        return factor * float(reduce(values)) if len(values) else None

    return read


def indicator(name: str, reduce: Callable[["pd.Series[float]"], float]) -> Reader:
    """A reduction over rounds of a row of indicators.csv."""

    def read(trial: TrialData) -> float | None:
        table = trial.table("indicators")
        values = table.loc[table["name"] == name, "value"].dropna() if len(table) else pd.Series(dtype=float)
        return float(reduce(values)) if len(values) else None

    return read


def before_critical(name: str) -> Reader:
    """The mean of a row of indicators.csv over the rounds before the critical point, or all if there is none."""

    def read(trial: TrialData) -> float | None:
        table, critical = trial.table("indicators"), trial.summary.get("critical_round")
        if table.empty:
            return None
        chosen = table[(table["name"] == name) & (table["round"] < (critical or float("inf")))]
        values = chosen["value"].dropna()
        return float(values.mean()) if len(values) else None

    return read


def early(values: "pd.Series[float]") -> float:
    """The mean over the first tenth of the rounds, or the first value if there is none so early."""
    own = values[values.index <= max(1, round(EARLY * values.index.max()))]
    return float(own.mean() if len(own) else values.iloc[0])


def first_two(values: "pd.Series[float]") -> float:
    """The mean of the first two rounds."""
    return float(values.iloc[:2].mean())


def late(values: "pd.Series[float]") -> float:
    """The mean of the last ten rounds."""
    return float(values.iloc[-LAST_ROUNDS:].mean())


def last(values: "pd.Series[float]") -> float:
    """The last one."""
    return float(values.iloc[-1])


def client_data(trial: TrialData) -> tuple[Floats, Floats, Floats]:
    """Of each client [n]: its weight summed over rounds, its number of samples, its heterogeneity degree."""
    counts = trial.table("partition").pivot(index="client", columns="class", values="samples")
    sums = trial.table("clients").groupby("client")["lambda"].sum().reindex(counts.index, fill_value=0.0)
    matrix = counts.to_numpy()
    return sums.to_numpy(float), matrix.sum(1).astype(float), heterogeneity_degree(class_shares(matrix))


def correlation(key: str) -> Metric:
    """Pearson correlation, over the clients, of accumulated weights with `key`; pooled, over the clients of all."""

    def pool(trials: Sequence[TrialData]) -> float | None:
        sums, sizes, degrees = (np.concatenate(parts) for parts in zip(*map(client_data, trials), strict=True))
        return weight_correlations(sums, sizes, degrees)[f"pearson_{key}"]

    label = {"size": "data size", "degree": "heterogeneity degree", "product": "size x degree"}[key]
    return Metric(f"correlation with {label}", summary(f"pearson_{key}"), 3, pool)


def weight_of_corrupted(trial: TrialData) -> float | None:
    """The weight of the corrupted clients over their share of the cohort's data, mean over rounds."""
    clients, swapped = trial.table("clients"), {int(client) for client in trial.summary.get("swapped_labels", {})}
    if not swapped:
        return None
    totals = clients.groupby("round")["samples"].sum()
    chosen = clients[clients["client"].isin(swapped)].groupby("round")[["lambda", "samples"]].sum()
    ratio = chosen["lambda"] / (chosen["samples"] / totals.reindex(chosen.index))
    return float(ratio.mean()) if len(ratio) else None


def rescaling_gain(trial: TrialData) -> float | None:
    """How much the final model's test loss falls when the model is rescaled by 0.98."""
    table = trial.table("rescaled")
    if table.empty:
        return None
    loss = table.set_index("gamma")["loss"]
    return float(loss.loc[1.0] - loss.loc[RESCALED_BY])


def best_weights(reduce: Callable[[Floats], Any]) -> Reader:
    """A reduction of the weights of three clients [rounds, 3] at which the test loss was the smallest."""

    def read(trial: TrialData) -> float | None:
        table = trial.table("simplex")
        if table.empty:
            return None
        best = table.loc[table.groupby("round")["loss"].idxmin(), ["lambda_0", "lambda_1", "lambda_2"]]
        return float(reduce(best.to_numpy(float)))

    return read


def spread_along(direction: Sequence[float]) -> Reader:
    """The standard deviation over rounds of the best weights along a direction of the simplex's plane."""
    unit = np.array(direction) / np.linalg.norm(direction)
    return best_weights(lambda weights: (weights @ unit).std())


def epochs_to_converge(name: str, value: str) -> Reader:
    """Server epochs until a learned weight is within 5 % of its way from its last value; mean over rounds."""

    def read(trial: TrialData) -> float | None:
        table = trial.table(name)
        if table.empty:
            return None
        if "client" not in table:
            table = table.assign(client=0)
        found = []
        for _, path in table.groupby("round"):
            points = path.pivot(index="epoch", columns="client", values=value).to_numpy()
            way = np.abs(points - points[-1]).sum(1)
            if way[0] > 0:
                found.append(float(np.flatnonzero(way > CONVERGED * way[0]).max(initial=0) + 2))
        return float(np.mean(found)) if found else None

    return read


METRICS: Mapping[str, Metric] = {
    "test_accuracy": Metric("test accuracy (%)", summary("final_accuracy", 100.0), better="higher"),
    "test_loss": Metric("test loss", summary("final_loss"), 4, better="lower"),
    "early_accuracy": Metric("test accuracy, first tenth of the rounds (%)", column("test_accuracy", early, 100.0)),
    "best_lambda_0": Metric(
        "best weight of client 0 on the simplex, mean over rounds",
        best_weights(lambda weights: weights[:, 0].mean()),
        3,
    ),
    "best_spread_0": Metric("spread of the best weights towards client 0", spread_along([2, -1, -1]), 3),
    "best_spread_12": Metric("spread of the best weights from client 1 to 2", spread_along([0, 1, -1]), 3),
    "gamma": Metric("gamma, mid-run", summary("middle_gamma"), 4),
    "r": Metric("r, mid-run", summary("middle_r")),
    "norm_opt": Metric("norm of the global gradient, mid-run", summary("middle_norm_opt")),
    "norm_reg": Metric("norm of the shrinking term, mid-run", summary("middle_norm_reg")),
    "norm_w": Metric("norm of the final model", column("norm_w", last)),
    "gamma_early": Metric("gamma, first tenth of the rounds", column("gamma", early), 4),
    "gamma_late": Metric("gamma, last 10 rounds", column("gamma", late), 4),
    "critical_round": Metric("critical point (round)", summary("critical_round"), 1),
    "coherence_peak": Metric("peak of the local gradient coherence", column("coherence_mean", max), 3),
    "coherence_late": Metric("local gradient coherence, last 10 rounds", column("coherence_mean", late), 3),
    "coherence_early_balanced": Metric(
        "coherence of balanced clients before the critical point", before_critical("coherence_mean_balanced"), 3
    ),
    "coherence_early_imbalanced": Metric(
        "coherence of imbalanced clients before the critical point", before_critical("coherence_mean_imbalanced"), 3
    ),
    "balanced_early": Metric("weight of balanced clients, first 2 rounds", indicator("lambda_balanced", first_two), 3),
    "balanced_late": Metric("weight of balanced clients, last 10 rounds", indicator("lambda_balanced", late), 3),
    "heterogeneity_coherence": Metric(
        "heterogeneity coherence", indicator("heterogeneity_coherence", lambda values: float(values.mean())), 3
    ),
    "heterogeneity_by_size": Metric(
        "heterogeneity coherence by data sizes",
        indicator("heterogeneity_coherence_by_size", lambda values: float(values.mean())),
        3,
    ),
    "hessian_top1": Metric("top Hessian eigenvalue, final model", indicator("hessian_top1", last), 3),
    "hessian_ratio": Metric("ratio of Hessian eigenvalues 1 and 5, final model", indicator("hessian_top1_top5", last)),
    "near_zero": Metric("parameters near zero (%)", summary("near_zero_share", 100.0)),
    "rescaling_gain": Metric("fall of the loss when rescaled by 0.98", rescaling_gain, 5),
    "pearson_size": correlation("size"),
    "pearson_degree": correlation("degree"),
    "pearson_product": correlation("product"),
    "weight_of_corrupted": Metric("weight of corrupted clients / their share of data", weight_of_corrupted, 3),
    "gamma_epochs": Metric("server epochs until gamma converges", epochs_to_converge("server_path", "gamma"), 1),
    "lambda_epochs": Metric("server epochs until lambda converges", epochs_to_converge("server_lambda", "lambda"), 1),
}
