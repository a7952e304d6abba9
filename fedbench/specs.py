"""The parts of a study file: tables, plots, claims, scales, the paper's numbers; data only."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedbench.errors import ConfigError, unknown
from fedbench.explain import explain
from fedbench.fields import Count
from fedbench.metrics import METRICS

Label = str | int | float | bool | None
Axis = list[Any] | dict[str, dict[str, Any]]
Where = dict[str, list[Label]]  # axis -> labels; those that a scale does not have are passed over
Point = dict[str, Label]  # axis -> label
Show = Literal["value", "difference", "relative"]  # itself, or against the baseline: paired, in the same unit or in %
Mark = Literal["S", "I", "W"]  # the paper states a setting; it can be inferred; it is a weak guess
ScaleName = Literal["quick", "paper", "tiny"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)


def _metric(name: str) -> str:
    if name not in METRICS:
        raise ConfigError(unknown("metric", name, METRICS))
    return name


MetricName = Annotated[str, AfterValidator(_metric)]


class Part(BaseModel):
    """A part of a study file: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TableSpec(Part):
    """One table: which axes are its rows and columns, what stands in its cells.

    The best is marked in each `row`, in each `column`, or along an axis that is named, all else being equal. Several
    values make a row each, the last row label being the metric's name. `pool` names one more column, in which the cells
    of a row are taken together (for metrics that can).
    """

    rows: list[str]
    columns: list[str]
    value: MetricName | list[MetricName] = "test_accuracy"
    show: Show = "value"
    best: str | None = None
    where: Where = {}
    pool: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "TableSpec":
        ways = ["row", "column", *self.rows, *self.columns]
        if self.best is not None and self.best not in ways:
            raise ConfigError(f"best = {self.best!r}: must be one of {', '.join(ways)}")
        if self.pool and (len(self.columns) != 1 or not all(METRICS[name].pool for name in self.metrics)):
            raise ConfigError("pool: needs one column axis, and metrics that can be pooled")
        return self

    @property
    def metrics(self) -> list[str]:
        """The metrics in its cells."""
        return [self.value] if isinstance(self.value, str) else list(self.value)

    @property
    def axes(self) -> list[str]:
        """Its row axes, then its column axes."""
        return [*self.rows, *self.columns]


class PlotSpec(Part):
    """What all figures share: a panel for every combination of `panels`, of the cells that `where` leaves."""

    one_cell: ClassVar[bool] = False  # whether panel and colour must leave no more than one cell
    kind: str
    panels: list[str] = []
    where: Where = {}

    @property
    def axes(self) -> list[str]:
        """The axes that it names."""
        return self.panels


class ColourSpec(PlotSpec):
    """A figure that has a colour for every value of an axis."""

    colour: str | None = None

    @property
    def axes(self) -> list[str]:
        """The axes that it names."""
        return [*self.panels, *([self.colour] if self.colour else [])]


class CurvesSpec(ColourSpec):
    """Columns of rounds.csv, or indicators, over rounds: mean over seeds and a band of one standard deviation.

    Several `y` are drawn with a line style each. `critical` marks where the local gradient coherence reaches zero.
    """

    one_cell = True
    kind: Literal["curves"] = "curves"
    y: str | list[str] = "test_accuracy"
    critical: bool = False


class SweepSpec(ColourSpec):
    """A metric against an axis: mean over seeds with a band of one standard deviation; a column for every metric.

    Values that are no numbers, or not all above zero where `log` asks for it, are evenly spaced.
    """

    one_cell = True
    kind: Literal["sweep"] = "sweep"
    x: str
    y: MetricName | list[MetricName] = "test_accuracy"
    show: Show = "value"
    log: bool = False

    @property
    def axes(self) -> list[str]:
        """The axes that it names."""
        return [*super().axes, self.x]


class DistributionSpec(ColourSpec):
    """How a column of rounds.csv is distributed over rounds and seeds, with the normal density that fits."""

    kind: Literal["distribution"] = "distribution"
    y: str = "r"


class ProfileSpec(ColourSpec):
    """A table of the final model as a curve: its parameters' histogram, its loss rescaled or along an eigenvector."""

    one_cell = True
    kind: Literal["profile"] = "profile"
    of: Literal["histogram", "rescaled", "landscape"]


class ServerPathSpec(PlotSpec):
    """Gamma, lambda and proxy loss over server epochs, in some rounds of the first seed."""

    kind: Literal["server_path"] = "server_path"
    rounds: Annotated[list[Count], Field(min_length=1)]


class HeatmapSpec(PlotSpec):
    """Cosines of all pairs of clients' gradients in some rounds of the first seed."""

    kind: Literal["heatmap"] = "heatmap"
    rounds: Annotated[list[Count], Field(min_length=1)]


class PartitionSpec(PlotSpec):
    """Which client holds how many samples of which class, for the first seed."""

    kind: Literal["partition"] = "partition"


class CohortSpec(ColourSpec):
    """The cohort's class distribution in some rounds of the first seed: by data sizes, and under learned weights."""

    kind: Literal["cohort"] = "cohort"
    colour: str
    rounds: Annotated[list[Count], Field(min_length=1)]


class SimplexSpec(PlotSpec):
    """Test loss over the weights of three clients in one round, and the best weights of every round; first seed."""

    kind: Literal["simplex"] = "simplex"
    round: Count


class WeightsSpec(ColourSpec):
    """Each client's accumulated weight against its data size and its heterogeneity degree; all seeds."""

    kind: Literal["weights"] = "weights"


class ClaimSpec(Part):
    """A claim of the paper: what it says, and the check that decides on it, one line for every rest of the axes."""

    says: str
    check: str
    value: MetricName = "test_accuracy"
    show: Show = "value"
    where: Where = {}

    @property
    def names(self) -> Where:
        """The axes that the check uses up, and the labels on them that it names."""
        return {}


class PairSpec(ClaimSpec):
    """About the difference between `point` and `against`, which is the study's baseline by default."""

    point: Point
    against: Point | None = None

    @property
    def names(self) -> Where:
        """The axes that the check uses up, and the labels on them that it names."""
        points = (self.point, self.against or {})
        return {axis: [point[axis] for point in points if axis in point] for point in points for axis in point}


class BeatsSpec(PairSpec):
    """At `point` the value is higher (or lower) than at `against`."""

    check: Literal["beats"]
    wins: Literal["higher", "lower"] = "higher"


class ComparableSpec(PairSpec):
    """The paired difference between two points is within a margin."""

    check: Literal["comparable"]
    margin: Annotated[float, Field(gt=0)]


class AxisSpec(ClaimSpec):
    """About the points of an axis."""

    axis: str

    @property
    def names(self) -> Where:
        """The axes that the check uses up, and the labels on them that it names."""
        return {self.axis: []}


class SomePointSpec(AxisSpec):
    """Some point of an axis beats the baseline; which one, is chosen by the other seeds."""

    check: Literal["some_point_beats_baseline"]


class TrendSpec(AxisSpec):
    """The value rises (or falls) along an axis: the slope over its points, in order."""

    check: Literal["trend"]
    direction: Literal["rises", "falls"]


class ExtremeSpec(AxisSpec):
    """The value is the smallest (or largest) at one point of an axis; its rival is chosen by the other seeds."""

    check: Literal["extreme"]
    at: Label
    which: Literal["smallest", "largest"]

    @property
    def names(self) -> Where:
        """The axes that the check uses up, and the labels on them that it names."""
        return {self.axis: [self.at]}


class WithinSpec(ClaimSpec):
    """The value lies between two bounds."""

    check: Literal["within"]
    low: float = float("-inf")
    high: float = float("inf")


class HigherSpec(ClaimSpec):
    """The value is higher than another metric of the same trial."""

    check: Literal["higher_than"]
    than: MetricName


class ScaleSpec(Part):
    """What a scale changes: base settings are merged, a named axis replaces the study's, seeds replace its seeds."""

    base: dict[str, Any] = {}
    grid: dict[str, Axis] = {}
    seeds: list[int] | None = None


class NotComparable(Part):
    """Cells of the paper that ours cannot be held against, by design."""

    where: Where
    why: str


class Reference(Part):
    """The paper's numbers, a list of rows for each table: row labels, then a value, or null, for each column.

    tolerance: one for all, or one for each metric, or table where that needs its own.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    tolerance: float | dict[str, float]
    not_comparable: list[NotComparable] = []

    @property
    def tables(self) -> Mapping[str, list[list[Any]]]:
        """The rows by table."""
        return self.model_extra or {}

    def tolerance_of(self, table: str, metric: str) -> float | None:
        """How far a value of a metric in a table may be from the paper's and still agree with it, if that is said."""
        if isinstance(self.tolerance, dict):
            return self.tolerance.get(table, self.tolerance.get(metric))
        return self.tolerance


def _by_name(key: str, classes: Iterable[type[Part]]) -> dict[str, type[Part]]:
    return {get_args(cls.model_fields[key].annotation)[0]: cls for cls in classes}


PLOTS = _by_name(
    "kind",
    (
        *(CurvesSpec, SweepSpec, DistributionSpec, ProfileSpec, ServerPathSpec),
        *(HeatmapSpec, PartitionSpec, CohortSpec, SimplexSpec, WeightsSpec),
    ),
)
CLAIMS = _by_name("check", (BeatsSpec, ComparableSpec, SomePointSpec, TrendSpec, ExtremeSpec, WithinSpec, HigherSpec))


def _part(where: str, settings: Any, key: str, classes: Mapping[str, type[Part]], default: str | None = None) -> Part:
    """The part of a study file that `settings` describe, of the class that their `key` names."""
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{where} = {settings!r}: must be settings, such as {{{key}: {next(iter(classes))}, ...}}")
    name = settings.get(key, default)
    if name not in classes:
        raise ConfigError(f"{where}.{key}: {unknown(key, name, classes)}")
    try:
        return classes[str(name)](**settings)
    except ValidationError as error:
        raise ConfigError(explain(error, classes[str(name)], prefix=f"{where}.", of=f" of {name}")) from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


class Study(Part):
    """A study file. `skip` leaves out cells; `marks` say of settings or labels how sure the paper's setting is."""

    title: str
    shows: str
    paper: list[str] = []
    base: dict[str, Any] = {}
    grid: dict[str, Axis]
    skip: list[Where] = []
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    baseline: Point = {}
    tables: Annotated[dict[str, TableSpec], Field(min_length=1)]
    plots: dict[str, PlotSpec] = {}
    claims: list[ClaimSpec] = []
    scales: Annotated[dict[ScaleName, ScaleSpec], Field(min_length=1)]
    marks: dict[str, Mark | dict[str, Mark]] = {}
    reference: Reference | None = None

    @model_validator(mode="after")
    def _check_claims(self) -> "Study":
        """What is compared needs something to be compared with."""
        for place, claim in enumerate(self.claims, start=1):
            if isinstance(claim, PairSpec) and not claim.against and not set(claim.point) & set(self.baseline):
                raise ConfigError(
                    f"claims.{place}: has nothing to compare with; give it 'against', or the study a baseline"
                )
            if claim.check == "some_point_beats_baseline" and not set(claim.names) <= set(self.baseline):
                raise ConfigError(f"claims.{place}: needs a baseline on {', '.join(claim.names)}")
        return self

    @model_validator(mode="after")
    def _check_reference(self) -> "Study":
        """The paper's numbers belong to tables, and have a tolerance."""
        reference = self.reference
        if reference is None:
            return self
        for name in reference.tables:
            if name not in self.tables:
                raise ConfigError(f"reference: {unknown('table', name, self.tables)}")
            if left := [m for m in self.tables[name].metrics if reference.tolerance_of(name, m) is None]:
                raise ConfigError(f"reference.tolerance: has none for {left[0]} (table {name})")
        for name in reference.tolerance if isinstance(reference.tolerance, dict) else ():
            if name not in self.tables and name not in METRICS:
                raise ConfigError(f"reference.tolerance: {unknown('metric or table', name, [*METRICS, *self.tables])}")
        return self

    @field_validator("tables", mode="before")
    @classmethod
    def _tables(cls, tables: Any) -> Any:
        if not isinstance(tables, Mapping):
            return tables
        return {
            name: _part(f"tables.{name}", spec, "kind", {"table": TableSpec}, "table") for name, spec in tables.items()
        }

    @field_validator("plots", mode="before")
    @classmethod
    def _plots(cls, plots: Any) -> Any:
        if not isinstance(plots, Mapping):
            return plots
        return {name: _part(f"plots.{name}", spec, "kind", PLOTS, "curves") for name, spec in plots.items()}

    @field_validator("claims", mode="before")
    @classmethod
    def _claims(cls, claims: Any) -> Any:
        if not isinstance(claims, list):
            return claims
        return [_part(f"claims.{place}", spec, "check", CLAIMS) for place, spec in enumerate(claims, start=1)]
