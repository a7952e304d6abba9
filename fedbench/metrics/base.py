"""What a metric is: one number a trial, with its reducer over rounds, its unit and its digits.

A metric reads what a finished trial left behind (its summary and its tables) and gives a float, or None where it is
not defined. Accuracies are percent here, as everywhere that people look at tables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fedbench.base.errors import ConfigError
from fedbench.base.registry import Registry
from fedbench.config.identity import LAST_ROUNDS

if TYPE_CHECKING:
    import pandas as pd

MARGIN = 0.5  # points of accuracy: smaller differences do not matter in practice
EARLY = 0.1  # the share of all rounds that "early" means


class TrialData(Protocol):
    """The data of a trial that a metric may read."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """What summary.json holds."""
        ...

    def table(self, name: str) -> "pd.DataFrame":
        """One of the trial's CSV files, without its suffix; empty if there is none."""
        ...

    def settings(self) -> Mapping[str, Any]:
        """The trial's settings, nested, as config.yaml holds them."""
        ...

    @property
    def kept(self) -> dict[str, Any]:
        """Results that several metrics of the trial share, by name, so that each is computed once."""
        ...


Reader = Callable[[TrialData], float | None]
Reducer = Callable[["pd.Series[float]", int], float]  # of what was recorded, by round; and how many rounds the run has


@dataclass(frozen=True)
class Metric:
    """`label`: name and unit, for axes; `digits` after the point; `pool`: the metric of several trials together.

    `better`: the one of several values that is the best, where there is such a thing; `alone`: whether one trial has
    it, too; `reaches`: whether a finished trial without a number is one that did not reach what the metric waits for;
    `basis`: what the number of a finished trial rests on, in words, where that is not the same for all trials;
    `margin`: a difference that is too small to matter in practice, None where no difference is; studies may change it.
    `beside`: methods whose trials of the same seed and the same other settings it is compared with by
    `compare(trial, others)`, with the others by method; `read` then gives None.
    """

    label: str
    read: Reader
    digits: int = 2
    pool: Callable[[Sequence[TrialData]], float | None] | None = None
    better: Literal["higher", "lower"] | None = None
    alone: bool = True
    reaches: bool = False
    basis: Callable[[TrialData], str] | None = None
    margin: float | None = None
    beside: tuple[str, ...] = ()
    compare: Callable[[TrialData, Mapping[str, TrialData]], float | None] | None = None


class Metrics(Registry[Metric]):
    """The metrics; those of a family have something in their name that can vary, such as rounds_to_80."""

    def __init__(self) -> None:
        super().__init__("metric", home="fedbench.metrics")
        self._families: dict[str, Callable[[str], Metric | None]] = {}

    def family(self, prefix: str, example: str, make: Callable[[str], Metric | None]) -> None:
        """Make all metrics known that `make` makes of what follows `prefix`; `example` stands for them in lists."""
        self._families[prefix] = make
        if metric := make(example.removeprefix(prefix)):
            self.add(example, metric)

    def get(self, name: object) -> Metric:
        """The metric of that name; one of a family comes to be when it is asked for."""
        known = [item for item, _ in self.items()]  # the families are at home, too
        for prefix, make in self._families.items():
            if isinstance(name, str) and name not in known and name.startswith(prefix):
                metric = make(name.removeprefix(prefix))
                if metric:
                    return metric
        return super().get(name)

    def __contains__(self, name: object) -> bool:
        try:
            self.get(name)
        except ConfigError:
            return False
        return True


METRICS = Metrics()


def register_metric(name: str, metric: Metric) -> None:
    """Make a metric known by its name."""
    if not isinstance(metric, Metric) or not callable(metric.read):
        raise ConfigError(f"metric '{name}': must be a Metric, with a function that reads it")
    METRICS.add(name, metric)


def summary(key: str, factor: float = 1.0) -> Reader:
    """A number of the summary."""

    def read(trial: TrialData) -> float | None:
        value = trial.summary.get(key)
        return None if value is None else factor * value

    return read


def column(name: str, reduce: Reducer, factor: float = 1.0) -> Reader:
    """A reduction of a column of rounds.csv, by round."""

    def read(trial: TrialData) -> float | None:
        rounds = trial.table("rounds")
        return reduced(trial, rounds.set_index("round")[name], reduce, factor) if name in rounds else None

    return read


def indicator(name: str, reduce: Reducer) -> Reader:
    """A reduction over rounds of a row of indicators.csv."""

    def read(trial: TrialData) -> float | None:
        table = trial.table("indicators")
        if table.empty:
            return None
        return reduced(trial, table[table["name"] == name].set_index("round")["value"], reduce)

    return read


def reduced(trial: TrialData, values: "pd.Series[float]", reduce: Reducer, factor: float = 1.0) -> float | None:
    """A reduction of what a trial recorded, by round; None where it recorded nothing that counts."""
    known = values.dropna()
    if not len(known):
        return None
    value = factor * float(reduce(known, int(trial.summary.get("rounds") or known.index.max())))
    return None if value != value else value


def early(values: "pd.Series[float]", rounds: int) -> float:
    """The mean over the first tenth of the rounds, or the first value if there is none so early."""
    first = values[values.index <= max(1, round(EARLY * rounds))]
    return float(first.mean() if len(first) else values.iloc[0])


def late(values: "pd.Series[float]", rounds: int) -> float:
    """The mean of the last ten rounds, of those that are recorded; nan if none is."""
    return float(values[values.index > rounds - LAST_ROUNDS].mean())


def last(values: "pd.Series[float]", rounds: int) -> float:
    """Return the last value that is recorded."""
    return float(values.iloc[-1])


def mean(values: "pd.Series[float]", rounds: int) -> float:
    """The mean over all rounds that are recorded."""
    return float(values.mean())


def highest(values: "pd.Series[float]", rounds: int) -> float:
    """Return the highest value."""
    return float(values.max())


def quartile_skewness(values: ArrayLike) -> float:
    """How lopsided a distribution is, from -1 to 1, by its quartiles: single outliers do not count.

    0 for a symmetric one; nan where the middle half does not vary.
    """
    low, middle, high = np.quantile(np.asarray(values, float), [0.25, 0.5, 0.75])
    return float((high + low - 2 * middle) / (high - low)) if high > low else float("nan")
