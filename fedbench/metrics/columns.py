"""Any column of rounds.csv, and any indicator, as a metric: what it is at some time of a run, or how it changes."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fedbench.config.identity import LAST_ROUNDS
from fedbench.indicators.base import Column
from fedbench.metrics.base import (
    EARLY,
    MARGIN,
    METRICS,
    Metric,
    Reducer,
    TrialData,
    early,
    late,
    mean,
    quartile_skewness,
    reduced,
)
from fedbench.simulation.record import columns

if TYPE_CHECKING:
    import pandas as pd

NORMAL = 1.4826  # standard deviations of a normal distribution in its median deviation


def first_half(values: "pd.Series[float]", rounds: int) -> float:
    """The mean over the first half of the rounds, or the first value if there is none so early."""
    first = values[values.index <= rounds / 2]
    return float(first.mean() if len(first) else values.iloc[0])


def fall(values: "pd.Series[float]", rounds: int) -> float:
    """How far the mean of the last ten rounds is below the highest mean of any ten in a row, of what is recorded.

    nan where nothing is recorded in the last ten rounds, or where there are no others: a run of ten rounds cannot fall.
    """
    if rounds <= LAST_ROUNDS:
        return float("nan")
    whole = values.reindex(range(1, rounds + 1))
    means = whole.rolling(LAST_ROUNDS, min_periods=1).mean().iloc[LAST_ROUNDS - 1 :]
    return float(means.max() - means.iloc[-1])


def variation(values: "pd.Series[float]", rounds: int) -> float:
    """How much it varies over rounds, after the first tenth: the median deviation in percent of the median.

    Scaled so that it is the relative standard deviation of normal values; single outliers do not count.
    """
    later = values[values.index > EARLY * rounds]
    median = later.median()
    return float(100 * NORMAL * (later - median).abs().median() / abs(median)) if median else float("nan")


def jumps(values: "pd.Series[float]", rounds: int) -> float:
    """How far it jumps from one round to the next, up or down: the mean over the second half of the rounds.

    Rounds that follow each other count, and no others; nan where no two of them are recorded.
    """
    later = values.reindex(range(rounds // 2 + 1, rounds + 1))
    return float(later.diff().abs().mean())


class Family(NamedTuple):
    """Metrics of one prefix: an example, how rounds are reduced, that in words, and whether the unit stays."""

    example: str
    reduce: Reducer
    words: str
    unit: bool = True


FAMILIES = {
    "late_": Family("train_loss", late, "last 10 rounds"),
    "early_": Family("test_accuracy", early, "first tenth of the rounds"),
    "first_half_": Family("test_accuracy", first_half, "first half of the rounds"),
    "mean_": Family("norm_w", mean, "mean over rounds"),
    "fall_": Family("test_accuracy", fall, "fall from its peak to the end"),
    "jumps_": Family("test_accuracy", jumps, "mean jump from round to round, second half"),
    "variation_": Family("r", variation, "variation over rounds, %", unit=False),
    "skewness_": Family(
        "r", lambda values, _: quartile_skewness(values), "skewness over rounds, by quartiles", unit=False
    ),
}
MEANS = ("late_", "early_", "first_half_", "mean_")  # of accuracies: these are accuracies, too
POOLED = ("skewness_",)  # of several trials: over the rounds of all of them


def metric_of(prefix: str, name: str) -> Metric | None:
    """A column reduced as the prefix says; None if there is no such column."""
    known, family = columns().get(name), FAMILIES[prefix]
    if known is None:
        return None
    pool = partial(_reduced, known, family)
    return Metric(
        f"{known.label}, {family.words}",
        lambda trial: pool([trial]),
        4 if family.unit and known.factor == 1 else 2,
        pool if prefix in POOLED else None,
        margin=MARGIN if name == "test_accuracy" and prefix in MEANS else None,
    )


def _reduced(known: Column, family: Family, trials: Sequence[TrialData]) -> float | None:
    """One number for the rounds of all trials; None where they have none, or it is not defined."""
    import pandas as pd

    values = pd.concat([_by_round(known, trial) for trial in trials])
    return reduced(trials[0], values, family.reduce, known.factor if family.unit else 1.0)


def _by_round(known: Column, trial: TrialData) -> "pd.Series[float]":
    """The values of a column, by round."""
    import pandas as pd

    table, name = trial.table(known.file), known.name
    if known.file == "indicators" and len(table):
        table, name = table[table["name"] == known.name], "value"
    return table.set_index("round")[name].dropna() if name in table else pd.Series(dtype=float)


for _prefix, _family in FAMILIES.items():
    METRICS.family(_prefix, f"{_prefix}{_family.example}", partial(metric_of, _prefix))
