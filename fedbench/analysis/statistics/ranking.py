"""Who is ahead over many cells: ranks and probabilities of improvement, as plain numbers.

Scores are arrays [cells, seeds, k] of k competitors, more being better; nan where there is none, and minus infinity
where a trial diverged. Cells are what is counted: seeds of one cell are no further settings.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LEVEL = 0.05  # how often any two that are alike are told apart at most
FRIEDMANS_CELLS = 10  # from which on Friedman's test is near enough to its level


class Ahead(NamedTuple):
    """The probability that one is ahead of another, with its 95 % interval; over so many cells.

    p: that they are alike, corrected for all pairs. nan where there is nothing in common.
    """

    value: float
    low: float
    high: float
    cells: int
    p: float

    @property
    def text(self) -> str:
        """The probability and its interval in words."""
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    @property
    def sure(self) -> bool:
        """Return whether the one is told apart from the other, being ahead."""
        return self.value > 0.5 and self.p <= LEVEL

    @property
    def reverse(self) -> "Ahead":
        """The same of the other."""
        return Ahead(1 - self.value, 1 - self.high, 1 - self.low, self.cells, self.p)


class MeanRanks(NamedTuple):
    """Mean rank of every competitor (1: always best); nan where undefined.

    p: of Friedman's test that all are alike, nan for fewer than ten cells; cells: that have all of them in some seed.
    """

    ranks: Array
    p: float
    cells: int


def mean_ranks(scores: Array) -> MeanRanks:
    """Ranks within every cell and seed that has all competitors, ties shared; the mean over seeds, then over cells.

    Friedman's test is on the cells' mean ranks.
    """
    from scipy.stats import friedmanchisquare, rankdata

    whole = np.asarray(~np.isnan(scores).any(axis=2))
    kept = [cell[there] for cell, there in zip(scores, whole, strict=True) if there.any()]
    k, n = scores.shape[2], len(kept)
    if n == 0 or k < 2:
        return MeanRanks(np.full(k, np.nan), np.nan, n)
    means = np.array([rankdata(-cell, axis=1).mean(axis=0) for cell in kept])
    same = bool(np.all(means == means[:, :1]))
    p = float(friedmanchisquare(*means.T).pvalue) if k > 2 and n >= FRIEDMANS_CELLS and not same else np.nan
    return MeanRanks(means.mean(axis=0), p, n)


def improvement(one: Array, other: Array, margin: float) -> Ahead:
    """The probability that one is ahead of the other [cells, seeds], with the p value of this pair alone.

    Pairs are of the same cell and seed; within the margin they count as half; all cells weigh the same. Interval and
    p value are those of as many tosses of a coin as there are cells that both have.
    """
    with np.errstate(invalid="ignore"):
        apart = one - other  # nan where both diverged
    there = ~np.isnan(apart)
    apart, there = apart[there.any(axis=1)], there[there.any(axis=1)]
    if not len(apart):
        return Ahead(np.nan, np.nan, np.nan, 0, np.nan)
    wins = np.where(apart > margin, 1.0, np.where(apart < -margin, 0.0, 0.5))
    shares = (wins * there).sum(axis=1) / there.sum(axis=1)
    # Where the one diverged and the other did not, the one is not ahead in this cell; and likewise the other.
    lost, won = (apart == -np.inf).any(axis=1), (apart == np.inf).any(axis=1)
    shares = np.where(
        lost & won, 0.5, np.where(lost, np.fmin(shares, 0.5), np.where(won, np.fmax(shares, 0.5), shares))
    )
    value, cells = float(shares.mean()), len(shares)
    return Ahead(value, *exact_interval(value, cells), cells, exact_p(value, cells))


@lru_cache(maxsize=4096)
def exact_interval(share: float, tosses: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a coin that fell so in a share of some tosses."""
    from scipy.special import betaincinv

    heads = share * tosses
    low = float(betaincinv(heads, tosses - heads + 1, 0.025)) if heads > 0 else 0.0
    high = float(betaincinv(heads + 1, tosses - heads, 0.975)) if heads < tosses else 1.0
    return low, high


@lru_cache(maxsize=4096)
def exact_p(share: float, tosses: int) -> float:
    """Return how often a fair coin falls as unevenly, to either side, as in a share of some tosses."""
    from scipy.special import betainc

    heads = max(share, 1 - share) * tosses
    return min(1.0, 2 * float(betainc(heads, tosses - heads + 1, 0.5)))


def improvements(scores: Array, margin: float) -> list[list[Ahead]]:
    """The probability that i is ahead of j, for all of them; p values are Holm's over all pairs."""
    k = scores.shape[2]
    pairs = {(i, j): improvement(scores[:, :, i], scores[:, :, j], margin) for i, j in combinations(range(k), 2)}
    pairs = {pair: found._replace(p=p) for (pair, found), p in zip(pairs.items(), _holm(pairs.values()), strict=True)}
    alone = Ahead(0.5, 0.0, 1.0, 0, 1.0)
    return [[alone if i == j else pairs[i, j] if i < j else pairs[j, i].reverse for j in range(k)] for i in range(k)]


class Practical(NamedTuple):
    """In how many cells one is ahead of another by more than the margin, within it, and behind by more.

    decision: which of them is sure to be so in most cells, "open" if none is; p: of the one with most cells, corrected
    for all pairs; cells: that both have.
    """

    ahead: int
    within: int
    behind: int
    cells: int
    p: float

    @property
    def decision(self) -> str:
        """What is so by more than chance."""
        if not self.p <= LEVEL:
            return "open"
        most = max(self.ahead, self.within, self.behind)
        return "ahead" if self.ahead == most else "equal" if self.within == most else "behind"

    @property
    def reverse(self) -> "Practical":
        """The same of the other."""
        return self._replace(ahead=self.behind, behind=self.ahead)


def practical(one: Array, other: Array, margin: float) -> Practical:
    """Sort a pair's cells [cells, seeds] by a region of practical equivalence, with the p value of this pair alone.

    The mean difference of a cell lies beyond the margin, or within it, in at most half of all cases where the true
    difference does not: noise that is symmetric moves it to either side. So a count is held against tosses of a fair
    coin, as by a sign test. Where the one diverged and the other did not, the one is behind.
    """
    with np.errstate(invalid="ignore"):
        apart = one - other  # nan where both diverged
    apart = apart[~np.isnan(apart).all(axis=1)]
    lost, won = (apart == -np.inf).any(axis=1), (apart == np.inf).any(axis=1)
    known = np.isfinite(apart)
    means = np.where(known, apart, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    means = np.where(lost & won, np.nan, np.where(lost, -np.inf, np.where(won, np.inf, means)))
    ahead, within, behind = (int(there.sum()) for there in (means > margin, np.abs(means) <= margin, means < -margin))
    most, cells = max(ahead, within, behind), len(means)
    p = exact_p(most / cells, cells) if 2 * most > cells else 1.0
    return Practical(ahead, within, behind, cells, p if cells else np.nan)


def practically(scores: Array, margin: float) -> list[list[Practical]]:
    """How i stands to j in practice, for all of them; p values are Holm's over all pairs."""
    k = scores.shape[2]
    pairs = {(i, j): practical(scores[:, :, i], scores[:, :, j], margin) for i, j in combinations(range(k), 2)}
    pairs = {pair: found._replace(p=p) for (pair, found), p in zip(pairs.items(), _holm(pairs.values()), strict=True)}
    alone = Practical(0, 0, 0, 0, 1.0)
    return [[alone if i == j else pairs[i, j] if i < j else pairs[j, i].reverse for j in range(k)] for i in range(k)]


def _holm(pairs: "Iterable[Ahead | Practical]") -> list[float]:
    """Holm's p values over all pairs that have any cells; nan for the others."""
    found = list(pairs)
    known = sorted((number for number, pair in enumerate(found) if pair.cells), key=lambda number: found[number].p)
    corrected, largest = [np.nan] * len(found), 0.0
    for place, number in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - place) * found[number].p))
        corrected[number] = largest
    return corrected


def fewest_cells(pairs: int) -> int:
    """Return the fewest cells by which two competitors can be told apart among this number of pairs.

    One of them must then be ahead in all cells.
    """
    return math.ceil(math.log2(2 * pairs / LEVEL))


def alike(ahead: Sequence[Sequence[Ahead]]) -> list[tuple[int, int]]:
    """The groups of which no two can be told apart: the first and last of as many neighbours as there are.

    Competitors are in the order of their ranks. Groups of one, and those inside another, are left out.
    """
    groups: list[tuple[int, int]] = []
    for first in range(len(ahead)):
        last = first
        while last + 1 < len(ahead) and not any(
            ahead[one][last + 1].sure or ahead[last + 1][one].sure for one in range(first, last + 1)
        ):
            last += 1
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups
