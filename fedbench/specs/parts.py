"""The parts of a study file that tables and plots are made of, and its vocabulary; data only."""

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from fedbench.base.errors import ConfigError, unknown
from fedbench.base.fields import Count
from fedbench.simulation.record import CURVES
from fedbench.store.metrics import METRICS

Label = str | int | float | bool | None
Axis = list[Any] | dict[str, dict[str, Any]]
Where = dict[str, list[Label]]  # axis -> labels; those that a scale does not have are passed over
Point = dict[str, Label]  # axis -> label
Show = Literal["value", "difference", "relative"]  # itself, or against the baseline: paired, in the same unit or in %
Mark = Literal["S", "I", "W"]  # the paper states a setting; it can be inferred; it is a weak guess
ScaleName = Literal["quick", "paper", "tiny"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)


def text_label(label: Label) -> str:
    """A label as users type and read it: 1.0 as 1, nothing as null, the rest as it is."""
    if label is None:
        return "null"
    return f"{label:g}" if isinstance(label, float) else str(label)


def _metric(name: str) -> str:
    if name not in METRICS:
        raise ConfigError(unknown("metric", name, METRICS))
    return name


def _curve(name: str) -> str:
    if name not in CURVES:
        raise ConfigError(unknown("column or indicator", name, CURVES))
    return name


MetricName = Annotated[str, AfterValidator(_metric)]
CurveName = Annotated[str, AfterValidator(_curve)]  # what has a value every round


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
    value: MetricName | Annotated[list[MetricName], Field(min_length=1)] = "test_accuracy"
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
    y: CurveName | list[CurveName] = "test_accuracy"
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
    y: CurveName = "r"


class ProfileSpec(ColourSpec):
    """A table of the final model as a curve: its parameters' histogram, its loss rescaled or along an eigenvector."""

    one_cell = True
    kind: Literal["profile"] = "profile"
    of: Literal["histogram", "rescaled", "landscape"]


class ServerPathSpec(PlotSpec):
    """Gamma, lambda and proxy loss over server epochs, in some rounds of the first seed."""

    one_cell = True
    kind: Literal["server_path"] = "server_path"
    rounds: Annotated[list[Count], Field(min_length=1)]


class HeatmapSpec(PlotSpec):
    """Cosines of all pairs of clients' gradients in some rounds of the first seed."""

    one_cell = True
    kind: Literal["heatmap"] = "heatmap"
    rounds: Annotated[list[Count], Field(min_length=1)]


class PartitionSpec(PlotSpec):
    """Which client holds how many samples of which class, for the first seed."""

    one_cell = True
    kind: Literal["partition"] = "partition"


class CohortSpec(ColourSpec):
    """The cohort's class distribution in some rounds of the first seed: by data sizes, and under learned weights."""

    kind: Literal["cohort"] = "cohort"
    colour: str
    rounds: Annotated[list[Count], Field(min_length=1)]


class SimplexSpec(PlotSpec):
    """Test loss over the weights of three clients in one round, and the best weights of every round; first seed."""

    one_cell = True
    kind: Literal["simplex"] = "simplex"
    round: Count


class WeightsSpec(ColourSpec):
    """Each client's accumulated weight against its data size and its heterogeneity degree; all seeds."""

    kind: Literal["weights"] = "weights"
