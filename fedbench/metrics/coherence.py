"""When clients' gradients agree, whose do, and what weight they get."""

from typing import TYPE_CHECKING

from fedbench.metrics.base import (
    Metric,
    Reader,
    TrialData,
    column,
    highest,
    indicator,
    late,
    mean,
    register_metric,
    summary,
)

if TYPE_CHECKING:
    import pandas as pd


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


def gained_at_critical(trial: TrialData) -> float | None:
    """How much of the final accuracy, above chance, the critical point's round has, in percent."""
    critical, final = trial.summary.get("critical_round"), trial.summary.get("final_accuracy")
    rounds, classes = trial.table("rounds"), trial.table("partition")
    if critical is None or final is None or rounds.empty or classes.empty:
        return None
    scored = rounds[rounds["round"] >= critical]["test_accuracy"].dropna()
    chance = 1 / classes["class"].nunique()
    return float(100 * (scored.iloc[0] - chance) / (final - chance)) if len(scored) and final > chance else None


def first_two(values: "pd.Series[float]", rounds: int) -> float:
    """The mean of the first two rounds, of those that are recorded; nan if none is."""
    return float(values[values.index <= 2].mean())


register_metric("critical_round", Metric("critical point (round)", summary("critical_round"), 1))
register_metric("coherence_peak", Metric("peak of the local gradient coherence", column("coherence_mean", highest), 3))
register_metric("coherence_late", Metric("local gradient coherence, last 10 rounds", column("coherence_mean", late), 3))
register_metric(
    "gained_at_critical",
    Metric("share of the final accuracy at the critical point, above chance, %", gained_at_critical),
)
for _group in ("balanced", "imbalanced"):
    _early = before_critical(f"coherence_mean_{_group}")
    register_metric(
        f"coherence_early_{_group}", Metric(f"coherence of {_group} clients before the critical point", _early, 3)
    )
register_metric(
    "balanced_early", Metric("weight of balanced clients, first 2 rounds", indicator("lambda_balanced", first_two), 3)
)
register_metric(
    "balanced_late", Metric("weight of balanced clients, last 10 rounds", indicator("lambda_balanced", late), 3)
)
register_metric(
    "heterogeneity_coherence", Metric("heterogeneity coherence", indicator("heterogeneity_coherence", mean), 3)
)
register_metric(
    "heterogeneity_by_size",
    Metric("heterogeneity coherence by data sizes", indicator("heterogeneity_coherence_by_size", mean), 3),
)
