"""Decisions about one number a seed: intervals, p values and verdicts that are wrong no more often than they promise.

A sample has seeds as its first axis, then none, one or two axes of points, then any others (many samples at a time).
nan: a seed that has no number. Infinite: one side of a comparison diverged and the other did not; minus infinity counts
against what is claimed. No number is put in its place: see `_Columns`. Where one side diverged in all n seeds and the
other in none, the p value is 4^-n: if both sides diverge with the same probability u, this has the probability
(u (1 - u))^n, which is largest at u = 1/2.

Three decisions can be made, each false in at most 2.5 % of all cases where it is not true: a claim "holds", it "fails",
or the difference is "too small to matter". The last one is an equivalence test: two one-sided tests against a margin.
A study may look at its results several times while it grows. `judge` judges one look, at the level that a plan gives
it; `over_looks` puts looks together. The levels of all looks add up to 5 %, so the promise holds for all of them
together (Bonferroni's inequality, whatever the dependence between looks).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Verdict = Literal["holds", "fails", "too small", "open", "preliminary", "no data"]
DECIDED: tuple[Verdict, ...] = ("holds", "fails", "too small")
LEVEL = 0.05  # of all looks together: each decision errs in at most half of it, since it is one-sided
LEAST_DIVERGED = 3  # seeds that must all diverge to decide something
BY_CHANCE = 0.25  # the largest probability, for two sides that are alike, that the first diverges and the second not
Reduce = Callable[[Array], Array]


@dataclass(frozen=True)
class Rule:
    """How a claim combines the differences at its points [points, ...] into the one that counts.

    axes: how many axes of points it has; low, high: reduce the lower and the upper bounds of all points to one; parts:
    into how many parts the error of each bound is split, given the shape of the points (Bonferroni's correction, which
    is the first step of Holm's procedure, and all that is needed to know whether there is any such point).
    """

    axes: int
    low: Reduce
    high: Reduce
    parts: Callable[[Sequence[int]], tuple[int, int]]


def _max(values: Array) -> Array:
    return np.asarray(np.fmax.reduce(values, axis=0))


def _min(values: Array) -> Array:
    return np.asarray(np.fmin.reduce(values, axis=0))


ONE = Rule(0, np.asarray, np.asarray, lambda _: (1, 1))
"""A single difference [seeds]."""
SOME = Rule(1, _max, _max, lambda shape: (shape[0], 1))
"""Some of several differences [seeds, points] is positive: Holm over points; fails if each of them is negative."""
EVERY = Rule(1, _min, _min, lambda shape: (1, shape[0]))
"""Each of several differences [seeds, points] is positive; fails if some is negative, Holm over points."""
INNER = Rule(
    2,
    lambda values: _max(np.fmin.reduce(values, axis=1)),
    lambda values: _min(np.fmax.reduce(values, axis=0)),
    lambda shape: (shape[0], shape[1]),
)
"""Some inner point is above both ends [seeds, inner points, ends]: Holm over inner points; fails if one end is above
all inner points, each end with half of the error."""


class Judgement(NamedTuple):
    """The decision about a claim on a sample; each field is an array over samples (or a number).

    value: the mean difference that counts (nan: none); low, high: its bounds, each wrong in at most half of the level
    of all cases; holds, fails, small: p values of the three decisions, scaled so that 2.5 % is the limit whatever the
    level; n: the seeds with a number; known: whether there is anything at all; stuck: whether more seeds cannot change
    it, since divergence in some seeds keeps it open.
    """

    value: Array
    low: Array
    high: Array
    holds: Array
    fails: Array
    small: Array
    n: NDArray[np.int64]
    known: NDArray[np.bool_]
    stuck: NDArray[np.bool_]

    @property
    def verdicts(self) -> NDArray[np.str_]:
        """Return the verdict on every sample; "too small" takes precedence where "holds" or "fails" is decided, too."""
        decided = np.where(self.holds <= LEVEL / 2, "holds", np.where(self.fails <= LEVEL / 2, "fails", "open"))
        decided = np.where(self.small <= LEVEL / 2, "too small", decided)
        return np.where(self.known, decided, "no data")

    @property
    def p(self) -> Array:
        """The two-sided p value of the decision that was made, or of the nearest one if none was."""
        verdicts = self.verdicts
        nearest = np.minimum(np.minimum(self.holds, self.fails), self.small)
        made = np.select(
            [verdicts == "too small", verdicts == "holds", verdicts == "fails"],
            [self.small, self.holds, self.fails],
            nearest,
        )
        return np.asarray(np.minimum(1.0, 2 * made))


def judge(
    sample: ArrayLike,
    low: float = 0.0,
    high: float = np.inf,
    rule: Rule = ONE,
    also: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
    *,
    margin: float | None = None,
    level: float = LEVEL,
) -> Judgement:
    """Judge the claim that what counts lies between `low` and `high`, at one look.

    It holds if it lies above the one and below the other, and fails if it lies beyond one of them. It is too small to
    matter if it lies between -margin and margin. also: p values of a second test, that it is larger and that it is
    smaller, which must decide likewise. level: the share of the 5 % that this look may spend.
    """
    columns = _Columns.of(np.asarray(sample, float))
    above, below = _p_above(columns, low, rule), _p_below(columns, low, rule)
    holds = np.maximum(np.maximum(above, _p_below(columns, high, rule)), also[0])
    fails = np.maximum(np.minimum(below, _p_above(columns, high, rule)), also[1])
    small = (
        np.ones_like(holds)
        if margin is None
        else np.maximum(_p_above(columns, -margin, rule), _p_below(columns, margin, rule))
    )
    holds, fails, small = (np.minimum(1.0, p * (LEVEL / level)) for p in (holds, fails, small))
    first, second = rule.parts(columns.mean.shape)
    axes = tuple(range(rule.axes))
    return Judgement(
        value=rule.low(columns.middle),
        low=rule.low(columns.bound(-1, level / 2 / first)),
        high=rule.high(columns.bound(1, level / 2 / second)),
        holds=np.asarray(holds),
        fails=np.asarray(fails),
        small=np.asarray(small),
        n=np.asarray(columns.n.max(axis=axes)),
        known=np.asarray(columns.known.any(axis=axes)),
        stuck=np.asarray(columns.mixed.all(axis=axes)),
    )


def over_looks(looks: Sequence[Judgement]) -> Judgement:
    """The judgement after several looks at the same samples, in order: each sample stops at its first decision.

    Its p values are the smallest of the looks up to there; estimate and bounds are those of the last look taken.
    """

    def then(before: Judgement, look: Judgement) -> Judgement:
        over = np.isin(before.verdicts, DECIDED)
        chosen = {name: np.where(over, getattr(before, name), getattr(look, name)) for name in Judgement._fields}
        for name in ("holds", "fails", "small"):
            chosen[name] = np.where(over, chosen[name], np.minimum(getattr(before, name), getattr(look, name)))
        return Judgement(**chosen)

    return reduce(then, looks)


def deciding(sample: ArrayLike, rule: Rule) -> int:
    """Return the index of the point whose mean difference is the one that counts, in one sample."""
    means = _Columns.of(np.asarray(sample, float)).middle
    by_point = means if rule.axes < 2 else np.fmin.reduce(means, axis=1)
    return int(np.flatnonzero(by_point == rule.low(means))[0])


def _p_above(columns: "_Columns", bound: float, rule: Rule) -> Array:
    """Return the p value of the decision that the difference which counts is above a bound."""
    parts, _ = rule.parts(columns.mean.shape)
    return np.asarray(np.minimum(1.0, -rule.low(-columns.p(bound, 1)) * parts))


def _p_below(columns: "_Columns", bound: float, rule: Rule) -> Array:
    """Return the p value of the decision that the difference which counts is below a bound."""
    _, parts = rule.parts(columns.mean.shape)
    return np.asarray(np.minimum(1.0, rule.high(columns.p(bound, -1)) * parts))


@dataclass(frozen=True)
class _Columns:
    """Mean, standard error and number of seeds of every point, over the seeds that have a finite number.

    sure: infinite where all seeds (three or more) are, on the same side: the one diverged in every seed, the other in
    none; else 0. mixed: some are infinite, so nothing is decided. by_chance: the p value where it is sure.
    """

    mean: Array
    error: Array
    n: NDArray[np.int64]
    sure: Array
    mixed: NDArray[np.bool_]
    by_chance: float

    @classmethod
    def of(cls, sample: Array) -> "_Columns":
        finite = np.isfinite(sample)
        n = finite.sum(0)
        mean = np.where(finite, sample, 0.0).sum(0) / np.maximum(n, 1)
        squares = np.where(finite, np.where(finite, sample, 0.0) - mean, 0.0) ** 2
        error = np.sqrt(squares.sum(0) / np.maximum(n - 1, 1) / np.maximum(n, 1))
        enough = len(sample) >= LEAST_DIVERGED
        ends = [np.where((sample == end).all(0) & enough, end, 0.0) for end in (np.inf, -np.inf)]
        sure = ends[0] + ends[1]
        return cls(mean, error, n, sure, np.isinf(sample).any(0) & (sure == 0), BY_CHANCE ** len(sample))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Return whether there is anything about a point."""
        return np.asarray((self.n > 0) | self.mixed | (self.sure != 0))

    @property
    def middle(self) -> Array:
        """The mean, infinite where that is sure; nan where no seed has a number."""
        return np.where(self.sure != 0, self.sure, np.where(self.n > 0, self.mean, np.nan))

    def bound(self, side: int, error: float) -> Array:
        """The bound of the mean below (side -1) or above (1) it, which is wrong in so many cases."""
        from scipy.special import stdtrit  # late; scipy.stats has it too, but takes a second to import

        half = stdtrit(np.maximum(self.n - 1, 1), 1 - error) * self.error
        decided = (self.sure != 0) & (self.by_chance <= error)
        open_ = self.mixed | (self.n < 2)
        return np.where(decided, self.sure, np.where(open_, side * np.inf, self.mean + side * half))

    def p(self, bound: float, side: int) -> Array:
        """The p value of the mean being above (side 1) or below (-1) a bound, by Student's t or by divergence."""
        from scipy.special import stdtr

        if np.isinf(bound):
            return np.full(self.mean.shape, 0.0 if side * bound < 0 else 1.0)
        apart = side * (self.mean - bound)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.error > 0, apart / self.error, np.sign(apart) * np.inf)
        p = np.where(np.isnan(t), 0.5, stdtr(np.maximum(self.n - 1, 1), -t))
        p = np.where(self.mixed | (self.n < 2), 1.0, p)
        return np.where(self.sure != 0, np.where(side * self.sure > 0, self.by_chance, 1.0), p)


def q_values(p: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's: of all claims with a q of at most 5 %, at most 5 % are false in expectation."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values)
    scaled = values[order] * (len(values) / np.arange(1, len(values) + 1))
    found = np.empty_like(values)
    found[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return [float(q) for q in np.clip(found, 0.0, 1.0)]
