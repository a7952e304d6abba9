"""Rank correlations by seed, with a test over cells that must agree."""

from functools import cache
from itertools import permutations

import numpy as np

from fedbench.analysis.statistics.verdicts import Array

FEWEST_CELLS = 6
ROUNDING = 1e-9
MOST_PERMUTED = 8  # cells; beyond it Student's t is near enough


def related(one: Array, other: Array, sign: int = 1) -> tuple[Array, tuple[Array, Array]]:
    """Spearman's rank correlation of values [seeds, cells, ...] over the cells, by seed, times a sign; and p values.

    Seeds that lack a cell are nan. Cells that have nothing to do with each other may be in the same order in all seeds.
    So the mean ranks of the cells must be related beyond chance, too: the p values, for `Evidence.also`, are those of a
    permutation test over cells, and 1 with fewer than six cells or the same correlation in all seeds.
    """
    cells = one.shape[1]
    whole = ~np.asarray(np.isnan(one) | np.isnan(other)).any(axis=1, keepdims=True)
    ranks = [np.where(whole, _ranks(values), np.nan) for values in (one, other)]
    sample = sign * _correlation(*ranks)
    totals = [_ranks(np.where(whole, part, 0.0).sum(axis=0)[None]) for part in ranks]
    overall = sign * _as_if_untied(*totals)[0]
    spread = np.fmax.reduce(sample) - np.fmin.reduce(sample)  # between seeds
    undecided = ~(spread > ROUNDING) | (cells < FEWEST_CELLS) | np.isnan(overall)
    above, below = (np.where(undecided, 1.0, _p_value(side * overall, cells)) for side in (1, -1))
    return sample, (above, below)


def _ranks(values: Array) -> Array:
    """Ranks along the cells [seeds, cells, ...], ties shared."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=1))


def _correlation(one: Array, other: Array) -> Array:
    """Pearson's correlation along the cells; nan where one side does not vary."""
    a, b = (part - part.mean(axis=1, keepdims=True) for part in (one, other))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1)))


def _as_if_untied(one: Array, other: Array) -> Array:
    """The rank correlation along the cells that tied ranks have in the mean over all orders of what is tied.

    Pearson's correlation of tied ranks is larger, and would be too large by chance more often than untied ranks are.
    """
    cells = one.shape[1]
    variance = cells * (cells**2 - 1) / 12
    products = (one - one.mean(axis=1, keepdims=True)) * (other - other.mean(axis=1, keepdims=True))
    return np.asarray(products.sum(axis=1) / variance)


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
