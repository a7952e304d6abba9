"""The paper's own numbers, read like those of trials: what a study's `reference` says of its cells."""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from fedbench.analysis.statistics.verdicts import Array
from fedbench.analysis.tables import places
from fedbench.metrics import METRICS
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Label, Show
from fedbench.specs.paper import paper_numbers


def paper_reader(study: ScaledStudy, show: Show) -> Callable[[Sequence[Cell], str], Array]:
    """Return a function that reads the paper's number of cells for a metric; nan where there is none.

    The paper's numbers are means over its seeds: they are read as those of one seed.
    """
    known = _known(study)

    def number(cells: Sequence[Cell], metric: str) -> float | None:
        own = known.get((_names(cells), metric, show))
        if own is not None or show == "value":
            return own
        base = [{**cell.labels, **study.study.baseline} for cell in cells]
        plain = known.get((_names(cells), metric, "value"))
        other = known.get((tuple(tuple(labels.values()) for labels in base), metric, "value"))
        if plain is None or other is None:
            return None
        return plain - other if show == "difference" else 100 * (plain - other) / other

    def read(cells: Sequence[Cell], metric: str) -> Array:
        whole = number(cells, metric)
        if whole is None and not METRICS.get(metric).pool:
            parts = [number([cell], metric) for cell in cells]
            there = [part for part in parts if part is not None]
            whole = fmean(there) if len(there) == len(cells) else None
        return np.array([np.nan if whole is None else whole])

    return read


Names = tuple[tuple[Label, ...], ...]  # of cells: their labels on all axes


def _names(cells: Sequence[Cell]) -> Names:
    return tuple(tuple(cell.labels.values()) for cell in cells)


def _known(study: ScaledStudy) -> dict[tuple[Names, str, Show], float]:
    """Return all numbers of the paper, by the cells, the metric, and how it is shown."""
    known = {}
    for name, table in study.study.tables.items():
        if paper := paper_numbers(study.name, study.study, name):
            for place in places(study, table):
                if place.key in paper:
                    known[_names(place.cells), place.metric, table.show] = paper[place.key]
    return known
