"""The parts of a study file that tables, plots and claims are made of; data only."""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from fedbench.base.errors import unknown
from fedbench.base.explain import is_key, keys
from fedbench.base.fields import Count, Strict, invalid
from fedbench.base.registry import Registry
from fedbench.config import TrialConfig, score_rounds
from fedbench.metrics import METRICS
from fedbench.simulation.record import columns
from fedbench.specs.names import Show, Where


def _metric(name: str) -> str:
    if name not in METRICS:
        raise invalid(unknown("metric", name, METRICS))
    return name


def _ordered(name: str) -> str:
    if METRICS.get(name).better is None:
        known = ", ".join(name for name, metric in METRICS.items() if metric.better)
        raise invalid(f"{name}: neither high nor low values are better; must be one of {known}")
    return name


def _curve(name: str) -> str:
    known = columns()
    if name not in known:
        raise invalid(unknown("column or indicator", name, known))
    return name


MetricName = Annotated[str, AfterValidator(_metric)]
CurveName = Annotated[str, AfterValidator(_curve)]  # what has a value every round


class ScoreSpec(Strict):
    """How the final score is computed."""

    rounds: Count | None = None
    """the mean of so many last rounds; by default a tenth of all rounds, but at least 3 and at most 10"""

    def over(self, rounds: int) -> int:
        """Return over how many last rounds a run of `rounds` rounds is scored."""
        return score_rounds(rounds) if self.rounds is None else min(rounds, self.rounds)


METHOD = "method"  # the axis that is ranked unless a file names another


class RanksSpec(Strict):
    """What is ranked over all cells."""

    axis: str = METHOD
    """along which"""
    margin: Annotated[float, Field(ge=0)] = 0.5
    """points of accuracy within which two are no different in practice"""
    value: Annotated[MetricName, AfterValidator(_ordered)] = "test_accuracy"
    """the metric by which trials are ranked"""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """Accept the name of an axis alone."""
        return {"axis": given} if isinstance(given, str) else given


def _setting(key: str) -> str:
    if key != "seed" and not is_key(TrialConfig, key):
        raise invalid(unknown("setting", key, keys(TrialConfig)))
    return key


class VarianceSpec(Strict):
    """A table of variance components: how much of the variance between trials comes from each source of randomness."""

    rows: list[str]
    """axes: a row for every combination of their labels"""
    sources: Annotated[dict[str, Annotated[str, AfterValidator(_setting)]], Field(min_length=1)]
    """what differs between a row's trials: a name for each, and the setting that numbers its draws (or seed)"""
    value: MetricName = "test_accuracy"
    """a metric"""
    where: Where = {}
    """only these labels of an axis"""


class TableSpec(Strict):
    """One table: which axes are its rows and columns, what stands in its cells."""

    rows: list[str]
    """axes"""
    columns: list[str]
    """axes"""
    value: MetricName | Annotated[list[MetricName], Field(min_length=1)] = "test_accuracy"
    """a metric, or several: a row each, the last row label being the metric's name"""
    show: Show = "value"
    """the value itself, or its difference or relative gain (in %) to the baseline"""
    best: str | None = None
    """where the best is marked: in each row, in each column, or along an axis, all else being equal"""
    where: Where = {}
    """only these labels of an axis"""
    costs: bool = False
    """what a round of each method costs: seconds on the server, and traffic"""
    pool: str | None = None
    """the name of one more column, in which the cells of a row are taken together (for metrics that can)"""

    @model_validator(mode="after")
    def _check(self) -> "TableSpec":
        if twice := [axis for axis in self.axes if self.axes.count(axis) > 1]:
            raise invalid(f"{twice[0]} stands twice in rows and columns; name it once")
        ways = ["row", "column", *self.rows, *self.columns]
        if self.best is not None and self.best not in ways:
            raise invalid(f"best = {self.best!r}: must be one of {', '.join(ways)}")
        if self.pool and (len(self.columns) != 1 or not all(METRICS.get(name).pool for name in self.metrics)):
            raise invalid("pool: needs one column axis, and metrics that can be pooled")
        return self

    @property
    def metrics(self) -> list[str]:
        """Return the metrics in its cells."""
        return [self.value] if isinstance(self.value, str) else list(self.value)

    @property
    def axes(self) -> list[str]:
        """Return its row axes, then its column axes."""
        return [*self.rows, *self.columns]


class PlotSpec(Strict):
    """The fields that all figures share: a panel for every combination of `panels`, of the cells that `where` leaves.

    A kind of plot is a subclass (see render/plots), which fixes `kind` to its name and draws itself.
    """

    one_cell: ClassVar[bool] = False  # whether panel and colour must leave no more than one cell
    kind: str
    """the kind of plot"""
    panels: list[str] = []
    """axes: a panel for every combination of their labels"""
    where: Where = {}
    """only these labels of an axis"""

    @model_validator(mode="after")
    def _check_axes(self) -> "PlotSpec":
        if twice := [axis for axis in self.axes if self.axes.count(axis) > 1]:
            raise invalid(f"{twice[0]} stands for two things; name another axis for one of them")
        return self

    @property
    def axes(self) -> list[str]:
        """Return the axes that the plot names."""
        return self.panels


class ClaimSpec(Strict):
    """A claim of the paper: what it says, and the check that decides on it, one line for every rest of the axes.

    A check is a subclass (see analysis/checks), which fixes `check` to its name and turns a claim into evidence.
    """

    says: str
    """the claim, in words"""
    check: str
    """the check"""
    value: MetricName = "test_accuracy"
    """what it is about: a metric"""
    show: Show = "value"
    """the value itself, or its difference or relative gain (in %) to the baseline"""
    where: Where = {}
    """only these labels of an axis"""
    over: list[str] = []
    """axes along which values are taken together: pooled for metrics that can, else their mean"""
    source: str | None = None
    """whose claim it is, where it is not the paper's"""

    @property
    def words(self) -> str:
        """Return the claim and, where it is not the paper's, its source."""
        return f"{self.says} ({self.source})" if self.source else self.says

    @property
    def names(self) -> Where:
        """Return the axes that the check uses, with the labels that it names on them."""
        return {}

    @abstractmethod
    def evidence(self, group: Any) -> Any:
        """Return one number for each seed, see analysis/checks/base.py."""

    def complaint(self, baseline: Where) -> str | None:
        """Return what is wrong with the claim in a study with this baseline; None if nothing is."""
        return None


PLOTS: Registry[type[PlotSpec]] = Registry("kind of plot", home="fedbench.render.plots")
CHECKS: Registry[type[ClaimSpec]] = Registry("check", home="fedbench.analysis.checks")
