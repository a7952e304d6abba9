"""Checks of a study file before anything runs (names, axes, labels, the paper's numbers), and of what --set changes."""

import re
from collections.abc import Iterable, Mapping, Sequence

from fedbench.base.errors import ConfigError, unknown
from fedbench.base.explain import keys
from fedbench.base.settings import Settings, leaves, merge, nest
from fedbench.config import TrialConfig
from fedbench.metrics import METRICS
from fedbench.simulation.record import columns
from fedbench.specs.names import Label, Where, text_label
from fedbench.specs.paper import check_marks, paper_numbers
from fedbench.specs.parameters import MISSING, look_up
from fedbench.specs.study import Study

FILE_NAME = re.compile(r"[\w-]+")
# The columns of cells.csv and rounds.csv beside the axes: no axis may be called like one.
RESERVED = {
    *(
        "round",
        "seed",
        "diverged",
        "table",
        "value",
        "mean",
        "std",
        "n",
        "seeds",
        "hash",
        "seconds",
        "peak_memory_mb",
        "server_seconds",
        "megabytes",
        "paper",
        "failed",
    ),
    *("low95", "high95", "difference", "difference_low95", "difference_high95", "difference_n", "paper_difference"),
    *("reached", "finished"),
    *("accuracy_final", "accuracy_best", "accuracy_last", "mean_diverged_as_chance"),
}


def check_study(stem: str, study: Study) -> None:
    """Raise ConfigError for anything that is wrong with a study file at any scale."""
    for axis in {key for grid in _grids(study) for key in grid}:
        if axis == "seed":
            raise ConfigError(f"{stem}: grid.seed: name seeds under seeds")
        if axis in RESERVED or axis in columns():
            raise ConfigError(f"{stem}: grid.{axis}: a column of the results is called so; choose another name")
    if any("seed" in base for base in (study.base, *(scale.base for scale in study.scales.values()))):
        raise ConfigError(f"{stem}: base.seed: name seeds under seeds")
    _check_bases(stem, study)
    _check_points(stem, study)
    for kind, names in (("tables", study.tables), ("plots", study.plots)):
        for name in names:
            if not FILE_NAME.fullmatch(name):
                raise ConfigError(f"{stem}: {kind}.{name}: becomes a file's name; use letters, digits, - and _")
    for name in ("ranks", "variance"):
        if name in study.plots:
            raise ConfigError(f"{stem}: plots.{name}: a file of every report is called so; choose another name")
    _check_labels(stem, study)
    _check_baseline(stem, study)
    _check_beside(stem, study)
    _check_sources(stem, study)
    check_marks(stem, study, known_labels(study))
    for name in study.tables:
        paper_numbers(stem, study, name)


def _check_bases(stem: str, study: Study) -> None:
    """Refuse base settings that every point of an axis, or of a scale's axis, overrides."""
    for name, scale in study.scales.items():
        base = merge(nest(study.base, stem), nest(scale.base, stem))
        for axis, points in {**study.grid, **scale.grid}.items():
            keys_of = [set(leaves(nest(point, stem))) for point in points.values()] if isinstance(points, dict) else []
            fixed = set.intersection(*keys_of) if keys_of else {axis} if isinstance(points, list) else set()
            if both := sorted(fixed & set(leaves(base))):
                at = "base" if both[0] in set(leaves(nest(study.base, stem))) else f"scales.{name}.base"
                raise ConfigError(f"{stem}: {at}.{both[0]}: every point of the axis '{axis}' sets it; leave it out")


def _check_points(stem: str, study: Study) -> None:
    """Refuse two axes that set the same key, since one would have no effect, and axes that set the seed."""
    for scale in study.scales.values():
        owners: dict[str, str] = {}
        for axis, points in {**study.grid, **scale.grid}.items():
            named = points.values() if isinstance(points, dict) else [{axis: None}]
            for key in {key for point in named for key in leaves(nest(point, stem))}:
                if key == "seed":
                    raise ConfigError(f"{stem}: grid.{axis}: sets seed; name seeds under seeds")
                if (other := owners.setdefault(key, axis)) != axis:
                    raise ConfigError(f"{stem}: grid.{axis}: sets {key}, as the axis '{other}' does; leave it to one")


def _check_sources(stem: str, study: Study) -> None:
    """Refuse variance components whose rows have trials that differ in a setting that is not a source."""
    if study.variance is None:
        return
    rows, sources = study.variance.rows, set(study.variance.sources.values())
    for scale in study.scales.values():
        for axis, points in {**study.grid, **scale.grid}.items():
            named = points.values() if isinstance(points, dict) else [{axis: None}]
            keys = sorted({key for point in named for key in leaves(nest(point, stem))})
            if axis not in rows and (others := [key for key in keys if key not in sources]):
                raise ConfigError(
                    f"{stem}: variance: the axis '{axis}' changes {others[0]}, which is no source; "
                    "name the axis under rows, or the setting under sources"
                )
        if len(scale.seeds or study.seeds) > 1 and "seed" not in sources:
            raise ConfigError(f"{stem}: variance: there are several seeds; name one seed, or seed under sources")


def _check_beside(stem: str, study: Study) -> None:
    """A metric that compares trials with those of other methods needs these methods in the study."""
    shown = [(f"tables.{name}", metric) for name, table in study.tables.items() for metric in table.metrics]
    shown += [(f"claims.{number}", claim.value) for number, claim in enumerate(study.claims, start=1)]
    methods = set(map(str, known_labels(study).get("method.name", [])))
    for grid in _grids(study):
        for points in grid.values():
            named = points.values() if isinstance(points, Mapping) else []
            methods |= {str(nest(point, stem).get("method", {}).get("name")) for point in named}
    for at, metric in shown:
        if missing := [name for name in METRICS.get(metric).beside if name not in methods]:
            raise ConfigError(f"{stem}: {at}: {metric} compares with method.name={missing[0]}, which the study lacks")


def _check_baseline(stem: str, study: Study) -> None:
    """Refuse tables and claims that compare with a baseline where the study has none."""
    for name, table in study.tables.items():
        if table.show != "value" and not study.baseline:
            raise ConfigError(f"{stem}: tables.{name}: show = {table.show!r} needs a baseline; give the study one")
    for number, claim in enumerate(study.claims, start=1):
        if claim.show != "value" and not study.baseline:
            raise ConfigError(f"{stem}: claims.{number}: show = {claim.show!r} needs a baseline; give the study one")
        if both := [axis for axis in claim.over if axis in claim.names]:
            raise ConfigError(f"{stem}: claims.{number}: over names {both[0]}, which its check needs; leave it out")
        if complaint := claim.complaint({axis: [label] for axis, label in study.baseline.items()}):
            raise ConfigError(f"{stem}: claims.{number}: {complaint}")


def _grids(study: Study) -> list[Mapping[str, Iterable[Label]]]:
    return [study.grid, *(scale.grid for scale in study.scales.values())]


def known_labels(study: Study) -> dict[str, list[Label]]:
    """Return the labels of every axis, over all scales."""
    axes = {axis for grid in _grids(study) for axis in grid}
    return {axis: [label for grid in _grids(study) for label in grid.get(axis, [])] for axis in sorted(axes)}


def _check_labels(stem: str, study: Study) -> None:
    """Refuse axes and labels that exist at no scale in tables, plots, claims, exceptions and the baseline."""
    known = known_labels(study)
    wheres = {f"tables.{name}": table.where for name, table in study.tables.items()}
    wheres |= {f"plots.{name}": plot.where for name, plot in study.plots.items()}
    wheres |= {f"claims.{number}": claim.where for number, claim in enumerate(study.claims, start=1)}
    for at, where in wheres.items():
        if empty := [axis for axis, labels in where.items() if not labels]:
            raise ConfigError(f"{stem}: {at}.where.{empty[0]} is empty; name labels, or leave it out")
    for at, where in _conditions(study):
        for axis, labels in where.items():
            if axis not in known:
                raise ConfigError(f"{stem}: {at}: {unknown('axis', axis, known)}")
            for label in labels:
                if label not in known[axis]:
                    options = map(text_label, known[axis])
                    raise ConfigError(f"{stem}: {at}: {unknown(f'value of {axis}', text_label(label), options)}")


def _conditions(study: Study) -> Iterable[tuple[str, Where]]:
    """Yield the axes and labels that each part of the file names, and the path of that part."""
    yield from ((f"skip.{number}", where) for number, where in enumerate(study.skip, start=1))
    yield "baseline", {axis: [label] for axis, label in study.baseline.items()}
    yield "ranks", {study.ranks.axis: []} if study.ranks else {}
    if study.variance:
        yield "variance", {**{axis: [] for axis in study.variance.rows}, **study.variance.where}
    for name, table in study.tables.items():
        yield f"tables.{name}", {**{axis: [] for axis in table.axes}, **table.where}
    for name, plot in study.plots.items():
        yield f"plots.{name}", {**{axis: [] for axis in plot.axes}, **plot.where}
    for number, claim in enumerate(study.claims, start=1):
        yield f"claims.{number}", {**claim.names, **{axis: [] for axis in claim.over}}
        yield f"claims.{number}", claim.where
    for key, mark in study.marks.items():
        yield from ((f"marks.{key}", rule.where) for rule in (mark if isinstance(mark, list) else ()))
    for exception in study.reference.not_comparable if study.reference else ():
        yield "reference.not_comparable", exception.where


def result_changes(changes: Settings) -> Settings:
    """Return the changes that make another study or search; where trials run does not."""
    return {key: value for key, value in changes.items() if key != "run"}


def check_changes(changes: Settings, axes: Mapping[str, Sequence[Settings]], path: str = "") -> None:
    """Refuse changes of a seed, of a whole group of settings, and of a key that all points of an axis set.

    `axes`: for each, the settings of its points.
    """
    if not changes:
        return
    groups = {key.partition(".")[0] for key in keys(TrialConfig) if "." in key}
    for name, value in changes.items():
        key = f"{path}{name}"
        if key == "seed":
            raise ConfigError("--set seed: use --seeds")
        if isinstance(value, dict):
            check_changes(value, axes, f"{key}.")
            continue
        if key in groups:
            raise ConfigError(f"--set {key}={value}: {key} is a group of settings; set one of them, {key}.KEY={value}")
        for axis, points in axes.items():
            if all(look_up(settings, key) is not MISSING for settings in points):
                raise ConfigError(f"--set {key}: every point of the axis '{axis}' sets its own; pick some with --only")
