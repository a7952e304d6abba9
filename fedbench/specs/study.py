"""A study file as data: everything that it may say, checked key by key."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from fedbench.base.errors import unknown
from fedbench.base.fields import Seeds, Strict, invalid, one_of
from fedbench.metrics import METRICS
from fedbench.specs.names import Axis, Beside, Mark, MostSeeds, Point, ScaleName, Where
from fedbench.specs.parts import (
    CHECKS,
    PLOTS,
    ClaimSpec,
    MetricName,
    PlotSpec,
    RanksSpec,
    ScoreSpec,
    TableSpec,
    VarianceSpec,
)


class ScaleSpec(Strict):
    """What a scale changes in a study."""

    base: dict[str, Any] = {}
    """settings, merged into the study's"""
    grid: dict[str, Axis] = {}
    """axes, each in place of the study's of that name"""
    seeds: Seeds | None = None
    """in place of the study's"""
    score: ScoreSpec | None = None
    """in place of the study's"""


class NotComparable(Strict):
    """Cells of the paper that cannot be compared with ours, by design."""

    where: Where
    why: str


class Reference(Strict):
    """The paper's numbers, a list of rows for each table: row labels, then a value, or null, for each column."""

    model_config = ConfigDict(extra="allow")
    tolerance: float | dict[str, float]
    """one for all, or one for each metric, or table where that needs its own"""
    not_comparable: list[NotComparable] = []
    """cells that cannot be compared"""

    @property
    def tables(self) -> Mapping[str, list[list[Any]]]:
        """Return the rows by table."""
        return self.model_extra or {}

    def tolerance_of(self, table: str, metric: str) -> float | None:
        """How far a value of a metric in a table may be from the paper's and still agree with it, if that is said."""
        if isinstance(self.tolerance, dict):
            return self.tolerance.get(table, self.tolerance.get(metric))
        return self.tolerance


class MarkRule(Strict):
    """How sure a setting is at some places; without a condition, at all. Of several that fit, the last one counts."""

    mark: Mark
    where: Where = {}
    """only these labels of an axis"""
    tables: list[str] = []
    """only in these tables"""
    values: list[MetricName] = []
    """only what is about these metrics"""


PlotChoice = one_of("kind", PLOTS.get, PLOTS, default="curves")
CheckChoice = one_of("check", CHECKS.get, CHECKS)


class Study(Strict):
    """The content of a study file."""

    title: Annotated[str, Field(examples=["My methods"])]
    """a headline"""
    shows: Annotated[str, Field(examples=["Which one is better"])]
    """what the study is about, in a sentence"""
    paper: list[str] = []
    """the paper's tables and figures that it makes again"""
    group: Literal["paper", "beyond", "checks"] | None = None
    """where `--list` shows it: of the paper, beyond it, or a check of ours; by default of the paper if `paper` names
    anything, else beyond it"""
    import_: list[str] = Field(default=[], alias="import")
    """modules with methods, models and the like of your own: names, or files beside this one"""
    base: dict[str, Any] = {}
    """settings of all trials"""
    grid: Annotated[dict[str, Axis], Field(examples=["{data.alpha: [0.1]}"])]
    """the axes: values of a setting, or names with settings that change together"""
    skip: list[Where] = []
    """cells to leave out"""
    seeds: Annotated[Seeds, Field(examples=["[8, 9, 10]"])]
    """a trial for each in every cell"""
    decide: bool | MostSeeds = False
    """true: add seeds until claims and comparisons with the baseline are decided, up to 12 or to 5, 8 or 20"""
    score: ScoreSpec = ScoreSpec()
    """`{rounds: N}`: the final score is the mean of the last N rounds (a tenth of all, but 3 to 10)"""
    baseline: Point = {}
    """the point that differences are taken to, seed by seed"""
    show: Beside = "spread"
    """what tables give beside a mean over seeds: its standard deviation, its 95 % `interval`, or `both`"""
    tables: Annotated[
        dict[str, TableSpec],
        Field(min_length=1, examples=["{accuracy: {rows: [], columns: [data.alpha]}}"]),
    ]
    """the first one is table.csv, others are table-NAME.csv"""
    plots: dict[str, Annotated[PlotSpec, PlotChoice]] = {}
    """figures, each of a kind"""
    claims: list[Annotated[ClaimSpec, CheckChoice]] = []
    """the paper's claims, each with a check"""
    margins: dict[MetricName, Annotated[float, Field(gt=0)] | None] = {}
    """differences that are too small to matter, by metric; null: none (0.5 points for accuracies, else none)"""
    ranks: RanksSpec | None = None
    """an axis (`method`, where there is one), or `{axis, margin}`: who is ahead over all cells"""
    variance: VarianceSpec | None = None
    """`{rows, sources}`: how much of the variance between trials comes from each source of randomness"""
    scales: Annotated[dict[ScaleName, ScaleSpec], Field(min_length=1, examples=["{quick: {}}"])]
    """what quick, paper and tiny change"""
    marks: dict[str, Mark | dict[str, Mark] | list[MarkRule]] = {}
    """how sure a setting of the paper is, labels of an axis, or places: S stated, I inferred, W a weak guess"""
    reference: Reference | None = None
    """the paper's numbers"""

    @property
    def listed_under(self) -> str:
        """The group that it belongs to."""
        return self.group or ("paper" if self.paper else "beyond")

    @model_validator(mode="after")
    def _check_reference(self) -> "Study":
        """Check that the paper's numbers belong to tables of the study and have a tolerance."""
        reference = self.reference
        if reference is None:
            return self
        for name in reference.tables:
            if name not in self.tables:
                raise invalid(f"reference: {unknown('table', name, self.tables)}")
            if left := [m for m in self.tables[name].metrics if reference.tolerance_of(name, m) is None]:
                raise invalid(f"reference.tolerance: has none for {left[0]} (table {name})")
        for name in reference.tolerance if isinstance(reference.tolerance, dict) else ():
            if name not in self.tables and name not in METRICS:
                raise invalid(f"reference.tolerance: {unknown('metric or table', name, [*METRICS, *self.tables])}")
        return self
