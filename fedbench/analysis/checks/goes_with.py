"""One metric goes with another over the cells of a study."""

from functools import cache
from itertools import permutations
from typing import Literal

import numpy as np

from fedbench.analysis.checks.base import Check, Evidence, Group, register_check
from fedbench.analysis.statistics.verdicts import Array
from fedbench.metrics import METRICS
from fedbench.specs.names import Where
from fedbench.specs.parts import MetricName

FEWEST_CELLS = 6
ROUNDING = 1e-9
MOST_PERMUTED = 8  # cells; beyond it Student's t is near enough


@register_check
class GoesWith(Check):
    """Over all cells of `axes` the value is the larger (`direction: rises`), or the smaller, the larger `other` is."""

    check: Literal["goes_with"]
    other: MetricName
    """the other metric"""
    axes: list[str]
    """the axes whose cells are compared"""
    direction: Literal["rises", "falls"]
    """which way"""

    @property
    def names(self) -> Where:
        """The axes."""
        return {axis: [] for axis in self.axes}

    @property
    def swept(self) -> list[str]:
        """The axes."""
        return self.axes

    def evidence(self, group: Group) -> Evidence:
        """Spearman's rank correlation over the cells, by seed; of the seeds that all cells have.

        Cells that have nothing to do with each other may be in the same order in all seeds. So the mean ranks of the
        cells must be related beyond chance, too: by a permutation test over cells, of which there must be six.
        """
        mine, other = (np.stack([group.read(c, name) for c in group.cells.values()], 1) for name in self._metrics)
        cells = mine.shape[1]
        if cells < 3:
            return group.nothing()
        sign = 1 if self.direction == "rises" else -1
        whole = ~np.asarray(np.isnan(mine) | np.isnan(other)).any(axis=1, keepdims=True)
        ranks = [np.where(whole, _ranks(values), np.nan) for values in (mine, other)]
        sample = sign * _correlation(*ranks)
        words = "rank correlation" if sign > 0 else "- rank correlation"
        few = f" (fewer than {FEWEST_CELLS}: open)" if cells < FEWEST_CELLS else ""
        text = f"{self.metric.label} with {METRICS.get(self.other).label}, {words} over {cells} cells{few}:"
        totals = [_ranks(np.where(whole, part, 0.0).sum(axis=0)[None]) for part in ranks]
        overall = sign * _correlation(*totals)[0]
        spread = np.fmax.reduce(sample) - np.fmin.reduce(sample)  # between seeds
        undecided = ~(spread > ROUNDING) | (cells < FEWEST_CELLS) | np.isnan(overall)
        above, below = (np.where(undecided, 1.0, _p_value(side * overall, cells)) for side in (1, -1))
        return Evidence(
            text,
            sample,
            also=(above, below),
            remark="a permutation test over cells must agree",
            decidable=cells >= FEWEST_CELLS,
        )

    @property
    def _metrics(self) -> tuple[str, str]:
        return self.value, self.other


def _ranks(values: Array) -> Array:
    """Ranks along the cells [seeds, cells, ...], ties shared."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=1))


def _correlation(one: Array, other: Array) -> Array:
    """Pearson's correlation along the cells; nan where one side does not vary."""
    a, b = (part - part.mean(axis=1, keepdims=True) for part in (one, other))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1)))


def _p_value(correlation: Array, cells: int) -> Array:
    """How often a rank correlation is as large by chance."""
    if cells <= MOST_PERMUTED:
        by_chance = _by_chance(cells)
        return np.asarray(1 - np.searchsorted(by_chance, correlation - ROUNDING) / len(by_chance))
    from scipy.special import stdtr

    with np.errstate(divide="ignore"):
        return np.asarray(stdtr(cells - 2, -correlation * np.sqrt((cells - 2) / (1 - correlation**2))))


@cache
def _by_chance(cells: int) -> Array:
    """The rank correlations of all permutations of so many cells, in ascending order."""
    orders = np.array(list(permutations(range(cells))), dtype=float)
    centred = orders - orders.mean(axis=1, keepdims=True)
    return np.sort(centred @ centred[0] / (centred[0] ** 2).sum())
