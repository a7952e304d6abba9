"""Who is ahead over many cells: ranks, interquartile means and probabilities of improvement, as plain numbers.

Scores are arrays [cells, seeds, k] of k competitors, more being better; nan where there is none.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RESAMPLES = 2000
SEED = 0


class Estimate(NamedTuple):
    """A number with its 95 % interval, whose ends are nan where there is too little to have one."""

    value: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """All of it in words."""
        return f"{self.value:.2f}" + ("" if np.isnan(self.low) else f" [{self.low:.2f}, {self.high:.2f}]")


class MeanRanks(NamedTuple):
    """Mean rank of every competitor (1: always best), and how far two must be apart (Nemenyi, 5 %).

    p: of Friedman's test that all are alike; cells: that have all competitors in some seed. nan where undefined.
    """

    ranks: Array
    critical: float
    p: float
    cells: int


def mean_ranks(scores: Array) -> MeanRanks:
    """Ranks within every cell and seed that has all competitors, ties shared; the mean over seeds, then over cells.

    Seeds of one cell are no further settings: the tests count cells. Friedman's is on the cells' mean scores.
    """
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    whole = np.asarray(~np.isnan(scores).any(axis=2))
    kept = [cell[there] for cell, there in zip(scores, whole, strict=True) if there.any()]
    k, n = scores.shape[2], len(kept)
    if n == 0 or k < 2:
        return MeanRanks(np.full(k, np.nan), np.nan, np.nan, n)
    ranks = np.mean([rankdata(-cell, axis=1).mean(axis=0) for cell in kept], axis=0)
    means = np.array([cell.mean(axis=0) for cell in kept])
    same = bool(np.all(means == means[:, :1]))
    p = float(friedmanchisquare(*means.T).pvalue) if k > 2 and n > 1 and not same else np.nan
    critical = float(studentized_range.ppf(0.95, k, np.inf)) / 2**0.5 * (k * (k + 1) / (6 * n)) ** 0.5
    return MeanRanks(ranks, critical, p, n)


def iqm(scores: Array) -> Estimate:
    """The mean of the middle half of one competitor's scores [cells, seeds]: a quarter, rounded down, goes at each end.

    The interval resamples seeds within every cell, from those that it has; there is none if no cell has two.
    """
    there = np.sort(scores, axis=1)  # nan comes last
    counts = (~np.isnan(there)).sum(axis=1)
    there, counts = there[counts > 0], counts[counts > 0][:, None]
    if not len(there):
        return Estimate(np.nan, np.nan, np.nan)
    value = float(_middles(there[None], int(counts.sum()))[0])
    if counts.max() < 2:
        return Estimate(value, np.nan, np.nan)
    n, seeds = there.shape
    picks = (np.random.default_rng(SEED).random((RESAMPLES, n, seeds)) * counts).astype(int)
    drawn = np.where(np.arange(seeds) < counts, there[np.arange(n)[:, None], picks], np.nan)
    low, high = np.quantile(_middles(drawn, int(counts.sum())), [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def _middles(drawn: Array, count: int) -> Array:
    """The interquartile mean of every resample [resamples, cells, seeds], which has so many values beside nan."""
    flat = np.sort(drawn.reshape(len(drawn), -1), axis=1)[:, :count]
    cut = count // 4
    return np.asarray(flat[:, cut : count - cut].mean(axis=1))


def improvement(one: Array, other: Array, margin: float) -> tuple[Estimate, int]:
    """The probability that one is ahead of the other [cells, seeds], and the number of cells that both have.

    Pairs are of the same cell and seed; within the margin they count as half; all cells weigh the same. The interval
    resamples cells, then seeds in them: it is about other cells of this kind, too, so one cell has none. It is no
    narrower than the exact one of as many tosses of a coin as there are pairs: few pairs that agree by chance would
    otherwise leave nothing to resample.
    """
    apart = one - other
    wins = np.where(apart > margin, 1.0, np.where(apart < -margin, 0.0, 0.5))
    there = ~np.isnan(apart)
    wins, there = wins[there.any(axis=1)], there[there.any(axis=1)]
    if not len(wins):
        return Estimate(np.nan, np.nan, np.nan), 0
    value = float(np.mean((wins * there).sum(axis=1) / there.sum(axis=1)))
    if len(wins) == 1:
        return Estimate(value, np.nan, np.nan), 1
    low, high = np.quantile(_resampled(there.tobytes(), there.shape) @ wins.ravel(), [0.025, 0.975])
    least, most = exact_interval(value, int(there.sum()))
    return Estimate(value, min(float(low), least), max(float(high), most)), len(wins)


@lru_cache(maxsize=4096)
def exact_interval(share: float, tosses: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a coin that fell so in a share of some tosses."""
    from scipy.stats import beta

    heads = share * tosses
    low = float(beta.ppf(0.025, heads, tosses - heads + 1)) if heads > 0 else 0.0
    high = float(beta.ppf(0.975, heads + 1, tosses - heads)) if heads < tosses else 1.0
    return low, high


def improvements(scores: Array, margin: float) -> list[list[tuple[Estimate, int]]]:
    """The probability that i is ahead of j, for all of them; one way is the other's rest to one."""
    count = scores.shape[2]
    found = [[improvement(scores[:, :, 0], scores[:, :, 0], margin)] * count for _ in range(count)]
    for i in range(count):
        for j in range(i, count):
            p, cells = improvement(scores[:, :, i], scores[:, :, j], margin)
            found[i][j], found[j][i] = (p, cells), (Estimate(1 - p.value, 1 - p.high, 1 - p.low), cells)
    return found


@lru_cache(maxsize=8)
def _resampled(mask: bytes, shape: tuple[int, int]) -> Array:
    """What every value weighs in every resample [resamples, cells * seeds] of cells, then seeds that they have.

    mask: which seeds every cell has, as bytes [cells, seeds].
    """
    there = np.frombuffer(mask, dtype=bool).reshape(shape)
    rng, (n, seeds) = np.random.default_rng(SEED), shape
    cells = rng.integers(n, size=(RESAMPLES, n, 1))
    counts = there.sum(axis=1)[cells]
    first = np.argsort(~there, axis=1, kind="stable")  # the seeds that a cell has, before those that it lacks
    drawn = first[cells, (rng.random((RESAMPLES, n, seeds)) * counts).astype(int)]
    weights = np.where(np.arange(seeds) < counts, 1 / (n * counts), 0.0)
    place = np.arange(RESAMPLES)[:, None, None] * n * seeds + cells * seeds + drawn
    summed = np.bincount(place.ravel(), weights.ravel(), RESAMPLES * n * seeds)
    return summed.astype(np.float64).reshape(RESAMPLES, n * seeds)


def alike(ranks: Sequence[float], critical: float) -> list[tuple[int, int]]:
    """The groups that Nemenyi's test does not tell apart: the first and last of as many as are within the difference.

    ranks: from the best on. Groups of one, and those inside another, are left out.
    """
    groups: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = max(k for k, other in enumerate(ranks) if k >= first and other - rank <= critical)
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups
