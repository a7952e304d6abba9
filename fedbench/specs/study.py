"""A study file as data: everything that it may say, checked key by key."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from fedbench.base.errors import ConfigError, unknown
from fedbench.base.explain import explain
from fedbench.specs.claims import (
    BeatsSpec,
    ClaimSpec,
    ComparableSpec,
    ExtremeSpec,
    HigherSpec,
    PairSpec,
    SomePointSpec,
    TrendSpec,
    WithinSpec,
)
from fedbench.specs.parts import (
    Axis,
    CohortSpec,
    CurvesSpec,
    DistributionSpec,
    HeatmapSpec,
    Mark,
    Part,
    PartitionSpec,
    PlotSpec,
    Point,
    ProfileSpec,
    ScaleName,
    ServerPathSpec,
    SimplexSpec,
    SweepSpec,
    TableSpec,
    WeightsSpec,
    Where,
)
from fedbench.store.metrics import METRICS


class ScaleSpec(Part):
    """What a scale changes: base settings are merged, a named axis replaces the study's, seeds replace its seeds."""

    base: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Axis] = Field(default_factory=dict)
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
    not_comparable: list[NotComparable] = Field(default_factory=list)

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
    if not isinstance(name, str) or name not in classes:
        raise ConfigError(f"{where}.{key}: {unknown(key, name, classes)}")
    try:
        return classes[name].model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain(error, classes[name], prefix=f"{where}.", of=f" of {name}")) from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _table(name: str, settings: Any) -> TableSpec:
    try:
        return TableSpec.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain(error, TableSpec, prefix=f"tables.{name}.")) from None
    except ConfigError as error:
        raise ConfigError(f"tables.{name}: {error}") from None


class Study(Part):
    """A study file. `skip` leaves out cells; `marks` say of settings or labels how sure the paper's setting is."""

    title: str
    shows: str
    paper: list[str] = Field(default_factory=list)
    base: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Axis]
    skip: list[Where] = Field(default_factory=list)
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    baseline: Point = Field(default_factory=dict)
    tables: Annotated[dict[str, TableSpec], Field(min_length=1)]
    plots: dict[str, PlotSpec] = Field(default_factory=dict)
    claims: list[ClaimSpec] = Field(default_factory=list)
    scales: Annotated[dict[ScaleName, ScaleSpec], Field(min_length=1)]
    marks: dict[str, Mark | dict[str, Mark]] = Field(default_factory=dict)
    reference: Reference | None = None

    @model_validator(mode="after")
    def _check_claims(self) -> "Study":
        """What is compared needs something to be compared with."""
        for place, claim in enumerate(self.claims, start=1):
            if isinstance(claim, PairSpec) and not claim.against and not set(claim.point) & set(self.baseline):
                raise ConfigError(
                    f"claims.{place}: has nothing to compare with; give it 'against', or the study a baseline"
                )
            if isinstance(claim, PairSpec) and (extra := set(claim.against or {}) - set(claim.point)):
                raise ConfigError(f"claims.{place}: against names {min(extra)}, so point must name it too")
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
        return {name: _table(name, spec) for name, spec in tables.items()} if isinstance(tables, Mapping) else tables

    @field_validator("plots", mode="before")
    @classmethod
    def _plots(cls, plots: Any) -> Any:
        if isinstance(plots, Mapping):
            return {name: _part(f"plots.{name}", spec, "kind", PLOTS, "curves") for name, spec in plots.items()}
        return plots

    @field_validator("claims", mode="before")
    @classmethod
    def _claims(cls, claims: Any) -> Any:
        if isinstance(claims, list):
            return [_part(f"claims.{place}", spec, "check", CLAIMS) for place, spec in enumerate(claims, start=1)]
        return claims
