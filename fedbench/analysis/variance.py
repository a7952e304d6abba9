"""Variance components of a study: how much of the variance between its trials comes from each source of randomness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fedbench.analysis.statistics.variance import Component, Components, DesignError, variance_components
from fedbench.analysis.values import Trials, finished
from fedbench.config import TrialConfig
from fedbench.metrics import METRICS
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Label, named, shown_as
from fedbench.specs.parts import VarianceSpec

WIDEST = 50.0  # points of a share's interval: a wider one says too little for a sentence
REST = "interactions and noise"


@dataclass(frozen=True)
class SourceShare:
    """The share of the variance that one source has; `source` is the name that the study gives it."""

    source: str
    component: Component


@dataclass(frozen=True)
class VarianceRow:
    """The components of one row: of a metric itself, or of its paired difference to the baseline.

    labels: the row's point on the row axes; what: the quantity, in words; shares: by source, the rest as the last one;
    unused: sources that change nothing in this row; std: the standard deviation of a single trial; problem: why there
    are no components, in words, or an empty text.
    """

    labels: Mapping[str, Label]
    difference: bool
    what: str
    trials: int
    std: float | None = None
    shares: Sequence[SourceShare] = ()
    unused: Sequence[str] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        """Return the row's labels in words."""
        return ", ".join(named(axis, label) for axis, label in self.labels.items())

    @property
    def sentence(self) -> str:
        """Return the share of the largest source with its interval.

        Empty if the interval is too wide for a sentence.
        """
        if len(self.shares) < 3:  # one source and the rest: there is nothing to compare
            return ""
        largest = max(self.shares[:-1], key=lambda share: share.component.share)
        part = largest.component
        if 100 * (part.high - part.low) > WIDEST:
            return ""
        return (
            f"Of the variance of {self.name} ({self.what}), {percent(part.share)} % "
            f"[{percent(part.low)}, {percent(part.high)}] comes from {largest.source}"
        )


def study_variance(study: ScaledStudy, trials: Trials) -> list[VarianceRow]:
    """Return the variance components of a study; none if it does not ask for them, or no trial is done.

    Each row is about the metric itself and, where the study has a baseline, about the difference to it, trial by trial.
    """
    spec = study.study.variance
    if spec is None or not any(finished(trials, hash_) for hash_ in study.trials):
        return []
    groups: dict[tuple[Label, ...], list[Cell]] = {}
    for cell in study.select(spec.where):
        groups.setdefault(tuple(cell.labels[axis] for axis in spec.rows), []).append(cell)
    cells = {tuple(cell.labels.values()): cell for cell in study.cells}
    rows = []
    for difference in (False, True) if study.study.baseline else (False,):
        for point, group in groups.items():
            pairs = [(cell, _baseline_of(study, cell, cells) if difference else None) for cell in group]
            if difference and any(base is None or base is cell for cell, base in pairs):
                continue
            rows.append(_row(dict(zip(spec.rows, point, strict=True)), spec, pairs, trials))
    return rows


def _baseline_of(study: ScaledStudy, cell: Cell, cells: Mapping[tuple[Label, ...], Cell]) -> Cell | None:
    """Return the baseline's cell at the same draws."""
    labels = {**cell.labels, **study.study.baseline}
    return cells.get(tuple(labels[axis] for axis in cell.labels))


def _row(
    labels: Mapping[str, Label], spec: VarianceSpec, pairs: Sequence[tuple[Cell, Cell | None]], trials: Trials
) -> VarianceRow:
    """Return the components of one row, over its different trials.

    pairs: a cell, and the baseline's cell for differences.
    """
    difference = pairs[0][1] is not None
    observed: dict[tuple[str, ...], float | None] = {}
    levels: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
    for cell, base in pairs:
        for seed, config in cell.trials.items():
            key = (config.hash, base.trials[seed].hash) if base else (config.hash,)
            observed[key] = _observed(spec.value, trials, *key)
            levels.setdefault(key, []).append(tuple(_setting(config, setting) for setting in spec.sources.values()))
    values = [value for value in observed.values() if value is not None]
    used, unused = _sources(spec, levels)
    what = shown_as(METRICS.get(spec.value).label.removesuffix(" (%)"), "difference" if difference else "value")
    row = VarianceRow(labels, difference, what, len(values), unused=unused)
    if left := len(observed) - len(values):
        return replace(row, problem=f"{left} of {len(observed)} trials have no number")
    if len(used) == 1 and all(len(set(column)) == len(values) > 1 for column in used.values()):
        found = _only(float(np.var(values, ddof=1)), len(values))
    else:
        try:
            found = variance_components(values, list(used.values()))
        except DesignError as error:
            return replace(row, problem=str(error))
    parts = [*found.factors, *([found.rest] if found.rest else [])]
    shares = [SourceShare(name, part) for name, part in zip([*used, REST], parts, strict=False)]
    return replace(row, std=found.total**0.5, shares=shares)


def _only(variance: float, levels: int) -> Components:
    """Return the components if one source is the only difference: it has the whole variance."""
    return Components([Component(variance, 1.0, 1.0, 1.0, levels)], None, variance)


def _observed(metric: str, trials: Trials, hash_: str, base: str | None = None) -> float | None:
    """Return the metric of a trial, less that of the baseline's trial; None if one of them has no number."""
    trial = finished(trials, hash_)
    value = METRICS.get(metric).read(trial) if trial else None
    if base is None or value is None:
        return value
    other = _observed(metric, trials, base)
    return None if other is None else value - other


def _setting(config: TrialConfig, key: str) -> Any:
    """Return the value of a dotted key in a config."""
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _sources(
    spec: VarianceSpec, levels: Mapping[tuple[str, ...], Sequence[tuple[Any, ...]]]
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the sources of a row with their level in each trial, and the names of those that change nothing.

    A source changes nothing where the same trial belongs to several of its levels, or where it has one level only.
    Sources that always change together cannot be told apart, and count as one.
    """
    used: dict[tuple[Any, ...], list[str]] = {}
    unused = []
    for number, name in enumerate(spec.sources):
        by_trial = [{level[number] for level in found} for found in levels.values()]
        column = tuple(next(iter(found)) for found in by_trial)
        if any(len(found) > 1 for found in by_trial) or len(set(column)) < 2:
            unused.append(name)
            continue
        known = {level: code for code, level in enumerate(dict.fromkeys(column))}
        used.setdefault(tuple(known[level] for level in column), []).append(name)
    return {_listed(names): list(column) for column, names in used.items()}, unused


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def variance_frame(rows: Sequence[VarianceRow]) -> pd.DataFrame:
    """Return variance.csv: a line for each source of each row.

    Variances are in the metric's unit squared, shares in percent.
    """
    return pd.DataFrame(
        {
            **row.labels,
            "of": "difference" if row.difference else "value",
            "source": share.source,
            "variance": share.component.variance,
            "share": 100 * share.component.share,
            "low95": 100 * share.component.low,
            "high95": 100 * share.component.high,
            "levels": share.component.levels,
            "trials": row.trials,
        }
        for row in rows
        for share in row.shares
    )


def percent(share: float) -> str:
    """Return a share as whole percent."""
    return f"{100 * share:.0f}"
