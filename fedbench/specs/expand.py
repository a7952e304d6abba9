"""A study as data: base settings, axes, seeds, tables, plots and the paper's numbers, in one YAML file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Literal, cast

from fedbench.base.errors import ConfigError, UserError, unknown
from fedbench.base.fields import first_duplicate
from fedbench.base.settings import Settings, in_words, merge, nest
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.specs.consistency import check_changes, check_study, result_changes
from fedbench.specs.library import built_in, load
from fedbench.specs.names import Axis, Label, Mark, ScaleName, Where, as_number, named, text_label, variant_name
from fedbench.specs.paper import marked
from fedbench.specs.parts import ScoreSpec
from fedbench.specs.plan import Plan, fixed_plan
from fedbench.specs.study import ScaleSpec, Study

TINY = {"rounds": 2, "data.train_size": 200, "data.test_size": 300, "clients.count": 5, "proxy.size": 20}
TINY_VALUES = 2  # of each setting that is an axis
TINY_SERVER_EPOCHS = 14  # at most; enough for SWA to begin
LARGEST_SEED = 10**9
MOST_TRIALS = 20_000  # of a study at one scale; to check so many takes seconds


UNPLANNED = fixed_plan([0], {})


@dataclass(frozen=True)
class Cell:
    """One point of the grid: its label on every axis, and a trial for every seed."""

    labels: Mapping[str, Label]
    trials: Mapping[int, TrialConfig]


@dataclass(frozen=True)
class ScaledStudy:
    """A study at one scale, expanded: what is run and tabled.

    axes: the labels of each axis that were picked; whole: all that the scale has; changed: base settings that options
    changed; picked: in words, what they picked; score: what the final score is; plan: of its seeds;
    source: its name, or its file, as it was given; modules: what --import named; base: the settings of all cells;
    home: below which folder its reports are; that of the result of a search is `searches`.
    """

    name: str
    scale: str
    study: Study
    axes: Mapping[str, Sequence[Label]]
    whole: Mapping[str, Sequence[Label]]
    cells: Sequence[Cell]
    changed: Settings
    picked: Sequence[str]
    score: ScoreSpec
    source: str = ""
    modules: Sequence[str] = ()
    base: Settings = field(default_factory=dict)
    plan: Plan = UNPLANNED
    home: Literal["studies", "searches"] = "studies"

    def with_seeds(self, seeds_of: Callable[[Cell], Sequence[int]]) -> "ScaledStudy":
        """Return the same study with other seeds in its cells."""
        cells = []
        for cell in self.cells:
            some = next(iter(cell.trials.values()))
            known = {**cell.trials}
            trials = {s: known[s] if s in known else some.model_copy(update={"seed": s}) for s in seeds_of(cell)}
            cells.append(Cell(cell.labels, trials))
        if (count := sum(len(cell.trials) for cell in cells)) > MOST_TRIALS:
            raise ConfigError(f"{self.name}: {count} trials; must be at most {MOST_TRIALS}: split the study")
        return replace(self, cells=cells)

    @cached_property
    def seeds(self) -> list[int]:
        """All seeds that some cell has: those of the plan in its order, then the others."""
        there = {seed for cell in self.cells for seed in cell.trials}
        return [*(s for s in self.plan.seeds if s in there), *sorted(there - set(self.plan.seeds))]

    @property
    def outside(self) -> list[int]:
        """Return the seeds that are run but do not belong to the plan, so that they change no verdict."""
        return [seed for seed in self.seeds if seed not in self.plan.seeds]

    @property
    def counts(self) -> list[int]:
        """The different numbers of seeds that cells have, in ascending order."""
        return sorted({len(cell.trials) for cell in self.cells})

    @property
    def variant(self) -> str:
        """A short name for what options changed of the study, fit for a folder; empty if they changed nothing."""
        return variant_name([*in_words(self.changed), *self.picked])

    @cached_property
    def trials(self) -> dict[str, TrialConfig]:
        """All different trials by their hash."""
        return {trial.hash: trial for cell in self.cells for trial in cell.trials.values()}

    @cached_property
    def proxy_draws(self) -> set[int]:
        """The draws of the proxy set that its trials use."""
        return {trial.proxy.draw for trial in self.trials.values()}

    @cached_property
    def by_labels(self) -> dict[tuple[Label, ...], Cell]:
        """All cells by their labels, in the order of the axes."""
        return {tuple(cell.labels.values()): cell for cell in self.cells}

    def labels(self, axis: str, where: Where) -> list[Label]:
        """The labels of an axis that a condition leaves: those that it names, or all if this scale has none of them."""
        named = set(self.whole[axis]).intersection(where.get(axis, [])) or set(self.whole[axis])
        return [label for label in self.axes[axis] if label in named]

    def select(self, where: Where) -> list[Cell]:
        """The cells that a condition leaves, in the order of the axes."""
        left = {axis: set(self.labels(axis, where)) for axis in self.axes}
        return [cell for cell in self.cells if all(cell.labels[axis] in left[axis] for axis in left)]

    def name_of(self, cell: Cell, seed: int) -> RunName:
        """A trial by its study and what differs between trials: alpha 0.1, FedLAW, seed 9."""
        words = [named(axis, label) for axis, label in cell.labels.items() if len(self.whole[axis]) > 1]
        return RunName(self.name, ", ".join(words), seed)

    def marked(self, mark: Mark, cell: Cell, metric: str, table: str | None = None) -> list[str]:
        """The settings behind a cell that have a mark (W: a weak guess), by name; of a claim, without a table."""
        config = next(iter(cell.trials.values()))
        return marked(self.study, mark, cell.labels, config, metric, table)


def study_files() -> dict[str, Path]:
    """The built-in studies by name."""
    return built_in("studies")


def load_study(name: str) -> tuple[str, Study]:
    """A built-in study by its name, or one of the user's by its path; returns its short name too."""
    return load("studies", name, Study, "study")


def expand(
    name: str, scale: str, *, changes: Settings, only: Mapping[str, Sequence[str]], seeds: Sequence[int] | None
) -> ScaledStudy:
    """Return a study at a scale, with base settings changed, cells picked (by their labels) and seeds replaced."""
    scaled = expand_study(*load_study(name), scale, changes=changes, only=only, seeds=seeds)
    return replace(scaled, source=str(name))


def expand_study(
    stem: str,
    study: Study,
    scale: str,
    *,
    changes: Settings,
    only: Mapping[str, Sequence[str]],
    seeds: Sequence[int] | None,
) -> ScaledStudy:
    """Expand a study that has been read, under its short name; see `expand`."""
    spec = _scale(stem, study, scale)
    whole = {key: _points(key, axis, stem) for key, axis in {**study.grid, **spec.grid}.items()}
    check_changes(changes, {key: [settings for _, settings in points] for key, points in whole.items()})
    base = merge(merge(nest(study.base, stem), nest(spec.base, stem)), changes)
    axes = _pick(whole, only, stem)
    chosen = _checked(seeds) or spec.seeds or study.seeds
    if (count := prod(map(len, axes.values())) * len(chosen)) > MOST_TRIALS:
        raise ConfigError(f"{stem}: {count} trials; must be at most {MOST_TRIALS}: pick some with --only, or split it")
    points = [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]
    cells = [_cell(stem, base, point, chosen, scale) for point in points if not _skipped(point, study.skip)]
    check_study(stem, study)
    if not cells:
        by = "what --only names, the study skips" if only else "the study skips everything"
        raise ConfigError(f"{stem}: nothing is left to run: {by}")
    picked = [f"{key}={','.join(map(text_label, _labels(axes)[key]))}" for key in only]
    picked += [f"seeds={','.join(map(str, seeds))}"] if seeds else []
    scaled = ScaledStudy(
        stem,
        scale,
        study,
        _labels(axes),
        _labels(whole),
        cells,
        result_changes(changes),
        picked,
        spec.score or study.score,
        base=base,
        plan=fixed_plan(spec.seeds or study.seeds, study.margins),
    )
    _check_axes(scaled)
    _check_leftovers(scaled)
    return scaled


def _checked(seeds: Sequence[int] | None) -> Sequence[int] | None:
    """Check the trials of seeds that are not those of the file."""
    for seed in seeds or ():
        if not 0 <= seed <= LARGEST_SEED:
            raise ConfigError(f"seed = {seed}: must be a whole number at least 0 and at most {LARGEST_SEED}")
    return seeds


def _check_axes(study: ScaledStudy) -> None:
    """Refuse tables, plots and claims about an axis that only other scales have."""
    parts = {f"tables.{name}": [*table.axes, *table.where] for name, table in study.study.tables.items()}
    parts |= {f"plots.{name}": [*plot.axes, *plot.where] for name, plot in study.study.plots.items()}
    claims = enumerate(study.study.claims, start=1)
    parts |= {f"claims.{number}": [*claim.names, *claim.over, *claim.where] for number, claim in claims}
    parts["baseline"] = list(study.study.baseline)
    parts["variance"] = study.study.variance.rows if study.study.variance else []
    for name, axes in parts.items():
        if missing := [axis for axis in axes if axis not in study.whole]:
            raise ConfigError(
                f"{study.name}: {name}: scale {study.scale} has no axis '{missing[0]}'; give it one there"
            )


def _check_leftovers(study: ScaledStudy) -> None:
    """Refuse tables and plots that show one cell but leave out an axis with several values."""
    parts = [
        (f"tables.{name}", "rows or columns", table.axes, table.where) for name, table in study.study.tables.items()
    ]
    for name, plot in study.study.plots.items():
        if plot.one_cell:
            parts.append((f"plots.{name}", "panels, or its colour,", plot.axes, plot.where))
    for name, allowed, axes, where in parts:
        if left := [a for a in study.axes if len(study.labels(a, where)) > 1 and a not in axes]:
            raise ConfigError(
                f"{study.name}: {name}: {left[0]} has several values, so it must be among {allowed} or in where"
            )


def _scale(stem: str, study: Study, scale: str) -> ScaleSpec:
    """Return what a scale changes; tiny is a small version of quick, with the study's own changes to that."""
    name = cast(ScaleName, "quick" if scale == "tiny" else scale)
    spec = study.scales.get(name)
    if spec is None:
        raise UserError(f"study '{stem}' has no scale '{scale}'; it has {', '.join(study.scales)}")
    if scale != "tiny":
        return spec
    tiny = study.scales.get("tiny", ScaleSpec())
    axes = {
        key: axis[:TINY_VALUES] if isinstance(axis, list) else axis for key, axis in (study.grid | spec.grid).items()
    }
    small = {key: value for key, value in TINY.items() if key not in axes}
    return ScaleSpec(
        base=merge(merge(nest(spec.base, stem), nest(small)), nest(tiny.base, stem)),
        grid={**axes, **tiny.grid},
        seeds=tiny.seeds or study.seeds[:1],
        score=tiny.score or spec.score,
    )


def _labels(axes: "Mapping[str, Sequence[Point]]") -> dict[str, list[Label]]:
    return {key: [label for label, _ in points] for key, points in axes.items()}


def _skipped(point: "Mapping[str, Point]", skip: Sequence[Where]) -> bool:
    return any(all(axis in point and point[axis][0] in where[axis] for axis in where) for where in skip)


Point = tuple[Label, Settings]


def _points(key: str, axis: Axis, where: str) -> list[Point]:
    """Return the label and the settings of every value of an axis."""
    if not axis:
        raise ConfigError(f"{where}: grid.{key} is empty")
    labels = [text_label(label) for label in axis]
    if twice := first_duplicate(labels):
        raise ConfigError(f"{where}: grid.{key}: {twice[0]} stands twice; name it once")
    if isinstance(axis, Mapping):
        return [(label, nest(settings, f"{where}: grid.{key}.{label}")) for label, settings in axis.items()]
    return [(value, nest({key: value}, where)) for value in axis]


def _pick(axes: dict[str, list[Point]], only: Mapping[str, Sequence[str]], where: str) -> dict[str, list[Point]]:
    """Keep the points that --only names: a label, or several with commas between them."""
    picked = dict(axes)
    for key, wanted in only.items():
        if key not in axes:
            raise ConfigError(f"--only {key}: {unknown('axis', key, axes)} (study {where})")
        names = {text_label(label): (label, settings) for label, settings in axes[key]}
        parts = [text for given in wanted for text in ([given] if given in names else given.split(","))]
        texts = [_label_of(text, names) for text in parts]
        for text in texts:
            if text not in names:
                raise ConfigError(f"--only {key}={text}: {unknown('value', text, names)}")
        picked[key] = [names[text] for text in names if text in texts]
    return picked


def _label_of(text: str, names: Iterable[str]) -> str:
    """Return the label that a text means: the same text, or the same number in another form, such as 1.0 for 1."""
    number = as_number(text)
    return text if text in names else next((n for n in names if as_number(n) == number is not None), text)


def _cell(where: str, base: Settings, point: Mapping[str, Point], seeds: Sequence[int], scale: str) -> Cell:
    settings = base
    for _, changes in point.values():
        settings = merge(settings, changes)
    labels = {key: label for key, (label, _) in point.items()}
    try:
        if scale == "tiny" and (getattr(TrialConfig(**settings).method, "epochs", 0) or 0) > TINY_SERVER_EPOCHS:
            settings = merge(settings, {"method": {"epochs": TINY_SERVER_EPOCHS}})
        config = TrialConfig(
            **merge(settings, {"seed": seeds[0]})
        )  # no check depends on the seed: the others are copies
        trials = {seed: config.model_copy(update={"seed": seed}) for seed in seeds}
    except ConfigError as error:
        at = ", ".join(f"{key}={text_label(label)}" for key, label in labels.items())
        raise ConfigError(f"study '{where}' at {at}: {error}") from None
    return Cell(labels, trials)
