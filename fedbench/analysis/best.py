"""The best places of a table: the best mean, and all that the test of the claims does not tell apart from it."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from fedbench.analysis.checks.base import Evidence
from fedbench.analysis.looks import Reading, answer
from fedbench.analysis.values import Trials, baseline_cells
from fedbench.metrics import METRICS
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.paper import Key, row_keys
from fedbench.specs.parts import TableSpec

if TYPE_CHECKING:
    from fedbench.analysis.tables import Place


def line_of(table: TableSpec, place: "Place") -> Key:
    """Return what a cell shares with those it is compared with: its row, its column, or all labels but one axis'."""
    if not table.best:
        return ()
    names = [*row_keys(table), *table.columns]
    along = tuple(label for name, label in zip(names, place.key, strict=True) if name != table.best)
    return {"row": place.row, "column": place.column}.get(table.best, along)


def best_places(study: ScaledStudy, trials: Trials, table: TableSpec, filled: Sequence["Place"]) -> set[Key]:
    """Return the best place of each row, of each column, or along an axis, and all that are not told apart from it.

    The best is the one with the best mean over the seeds that all have. Each other place is compared with it seed by
    seed, as two points are in a claim, with the margin of the metric. Before all planned seeds have ended, and of a
    single seed, the best alone is returned: there is no test. What diverged in a seed, or did not reach something in
    all, is left out.
    """
    lines: dict[tuple[str, Key], list[Place]] = {}
    for place in filled:
        if table.best and METRICS.get(place.metric).better and place.numbers["mean"] is not None:
            lines.setdefault((place.metric, line_of(table, place)), []).append(place)
    best = set[Key]()
    for (metric, _), line in lines.items():
        able = [place for place in line if not place.numbers["diverged"]]
        seeds = set.intersection(*(set(place.values) for place in able)) if able else set()
        if len(line) > 1 and seeds:
            sign = 1 if METRICS.get(metric).better == "higher" else -1
            means = {place.key: sign * fmean(place.values[seed] for seed in sorted(seeds)) for place in able}
            first = next(place for place in able if means[place.key] == max(means.values()))
            verdicts = {place.key: _against(study, trials, table, first, place, sign) for place in able}
            tested = len(seeds) > 1 and "preliminary" not in verdicts.values()
            best |= {
                key
                for key, mean in means.items()
                if mean == means[first.key] or (tested and verdicts[key] in ("open", "too small"))
            }
    return best


def _against(study: ScaledStudy, trials: Trials, table: TableSpec, first: "Place", other: "Place", sign: int) -> str:
    """Return the verdict on the claim that one place is better than another one."""

    def ask(seeds: Sequence[int]) -> tuple[Evidence, list[Reading]]:
        values = [np.array([place.values.get(seed, np.nan) for seed in seeds]) for place in (first, other)]
        read = [
            Reading(place.cells, place.metric, found, () if table.show == "value" else _baseline(study, place))
            for place, found in zip((first, other), values, strict=True)
        ]
        return Evidence("", sign * (values[0] - values[1]), span=1.0), read

    margin = None if table.show == "relative" else study.plan.margin(first.metric)
    return answer(study, trials, ask, margin).verdict


def _baseline(study: ScaledStudy, place: "Place") -> tuple[Cell, ...]:
    return tuple(baseline_cells(study, place.cells))
