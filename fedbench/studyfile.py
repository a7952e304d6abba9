"""A study as data: base settings, axes, seeds, tables, plots and the paper's numbers, in one YAML file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedbench.config import TrialConfig
from fedbench.errors import ConfigError, UserError, unknown
from fedbench.explain import explain
from fedbench.settings import Settings, load_raw_yaml, merge, nest

Label = str | int | float | bool | None
Axis = list[Any] | dict[str, dict[str, Any]]
Metric = Literal["test_accuracy", "test_loss", "gamma", "r", "norm_opt", "norm_reg"]
SCALES = ("quick", "paper", "tiny")
TINY = {"rounds": 2, "data.train_size": 200, "clients.count": 5}


class Part(BaseModel):
    """A part of a study file: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TableSpec(Part):
    """One table: which axes are its rows and columns, what stands in its cells, along what the best is marked."""

    rows: list[str]
    columns: list[str]
    value: Metric = "test_accuracy"
    best: Literal["row", "column"] | None = None


class PlotSpec(Part):
    """One figure: curves of a metric over rounds, a colour for each value of an axis, a panel for each of others."""

    kind: Literal["curves"] = "curves"
    y: Literal["test_accuracy", "test_loss", "train_loss", "gamma", "r", "norm_w", "coherence_mean"] = "test_accuracy"
    colour: str
    panels: list[str] = []


class ScaleSpec(Part):
    """What a scale changes: base settings are merged, a named axis replaces the study's, seeds replace its seeds."""

    base: dict[str, Any] = {}
    grid: dict[str, Axis] = {}
    seeds: list[int] | None = None


class Reference(Part):
    """The paper's numbers in percent, a list of rows for each table: row labels, then a value for each column."""

    model_config = ConfigDict(frozen=True, extra="allow")
    tolerance: Annotated[float, Field(gt=0)]


class Study(Part):
    """A study file."""

    title: str
    shows: str
    paper: list[str] = []
    base: dict[str, Any] = {}
    grid: dict[str, Axis]
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    baseline: dict[str, Any] = {}
    tables: Annotated[dict[str, TableSpec], Field(min_length=1)]
    plots: dict[str, PlotSpec] = {}
    scales: dict[Literal["quick", "paper"], ScaleSpec]
    reference: Reference | None = None


@dataclass(frozen=True)
class Cell:
    """One point of the grid: its label on every axis, and a trial for every seed."""

    labels: Mapping[str, Label]
    trials: Mapping[int, TrialConfig]


@dataclass(frozen=True)
class ScaledStudy:
    """A study at one scale, expanded: what is run and tabled."""

    name: str
    scale: str
    study: Study
    axes: Mapping[str, Sequence[Label]]
    cells: Sequence[Cell]
    changed: Settings

    @property
    def trials(self) -> dict[str, TrialConfig]:
        """All different trials by their hash."""
        return {trial.hash: trial for cell in self.cells for trial in cell.trials.values()}


def study_folders() -> list[Path]:
    """Where built-in studies are: in an installed wheel, and in a checkout."""
    package = Path(str(files("fedbench")))
    return [folder for folder in (package / "_studies", package.parent / "studies") if folder.is_dir()]


def built_in() -> dict[str, Path]:
    """The built-in studies by name."""
    return {path.stem: path for folder in study_folders() for path in sorted(folder.glob("*.yaml"))}


def load_study(name: str) -> tuple[str, Study]:
    """A built-in study by its name, or one of the user's by its path; returns its short name too."""
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        known = built_in()
        if name not in known:
            raise UserError(f"{unknown('study', name, known)}; or name a .yaml file")
        path = known[name]
    try:
        return path.stem, Study(**load_raw_yaml(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error, Study)}") from None


def expand(
    name: str, scale: str, *, changes: Settings, only: Mapping[str, Sequence[str]], seeds: Sequence[int] | None
) -> ScaledStudy:
    """A study at a scale, with base settings changed, cells picked and seeds replaced."""
    stem, study = load_study(name)
    spec = study.scales.get("quick" if scale == "tiny" else scale)  # type: ignore[call-overload]
    if spec is None:
        raise UserError(f"study '{stem}' has no scale '{scale}'; it has {', '.join(study.scales)}")
    base = merge(nest(study.base, stem), nest(spec.base, stem))
    axes = {key: _points(key, axis, stem) for key, axis in {**study.grid, **spec.grid}.items()}
    if scale == "tiny":
        base = merge(base, nest({k: v for k, v in TINY.items() if k not in axes}))
    base = merge(base, changes)
    chosen = list(seeds or ([study.seeds[0]] if scale == "tiny" else spec.seeds or study.seeds))
    axes = _pick(axes, only, stem)
    cells = [_cell(stem, base, dict(zip(axes, point, strict=True)), chosen) for point in product(*axes.values())]
    labels = {key: [label for label, _ in points] for key, points in axes.items()}
    for table in study.tables.values():
        if left := [axis for axis in axes if len(axes[axis]) > 1 and axis not in (*table.rows, *table.columns)]:
            raise ConfigError(f"{stem}: tables: {left[0]} has several values, so it must be among rows or columns")
    for axis in [a for t in study.tables.values() for a in (*t.rows, *t.columns)] + list(study.baseline):
        if axis not in axes:
            raise ConfigError(f"{stem}: {unknown('axis', axis, axes)}")
    return ScaledStudy(stem, scale, study, labels, cells, changes)


Point = tuple[Label, Settings]


def _points(key: str, axis: Axis, where: str) -> list[Point]:
    """(label, settings) of every value of an axis."""
    if not axis:
        raise ConfigError(f"{where}: grid.{key} is empty")
    if isinstance(axis, Mapping):
        return [(label, nest(settings, f"{where}: grid.{key}.{label}")) for label, settings in axis.items()]
    return [(value, nest({key: value}, where)) for value in axis]


def _pick(axes: dict[str, list[Point]], only: Mapping[str, Sequence[str]], where: str) -> dict[str, list[Point]]:
    """Keep the points that --only names, by their label."""
    picked = dict(axes)
    for key, wanted in only.items():
        if key not in axes:
            raise ConfigError(f"--only {key}: {unknown('axis', key, axes)} (study {where})")
        names = {text_label(label): (label, settings) for label, settings in axes[key]}
        for text in wanted:
            if text not in names:
                raise ConfigError(f"--only {key}={text}: {unknown('value', text, names)}")
        picked[key] = [names[text] for text in names if text in wanted]
    return picked


def text_label(label: Label) -> str:
    """A label as users type and read it: 1.0 as 1, the rest as it is."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def _cell(where: str, base: Settings, point: Mapping[str, Point], seeds: Sequence[int]) -> Cell:
    settings = base
    for _, own in point.values():
        settings = merge(settings, own)
    labels = {key: label for key, (label, _) in point.items()}
    try:
        trials = {seed: TrialConfig(**merge(settings, {"seed": seed})) for seed in seeds}
    except ConfigError as error:
        at = ", ".join(f"{key}={text_label(label)}" for key, label in labels.items())
        raise ConfigError(f"study '{where}' at {at}: {error}") from None
    return Cell(labels, trials)
