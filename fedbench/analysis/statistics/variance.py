"""Variance components of a balanced experiment with random factors, and intervals for their shares.

The model is y = mu + sum_i a_i + e with independent normal a_i and e: each factor i (a source of randomness) adds the
effect of its level, and e is what no single factor explains: interactions of factors, and noise. The design has to be
orthogonal: every factor has each of its levels equally often, and every pair of factors has each pair of levels equally
often. A full grid is, and so is an orthogonal array.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DRAWS = 20_000  # of the simulated distribution behind an interval
SMALLEST = 1e-12  # of the largest square: a sum of squares below that is rounding


class DesignError(ValueError):
    """The reason why variance components cannot be estimated from a design."""


@dataclass(frozen=True)
class Component:
    """The variance that one source accounts for, its share of the total with a 95 % interval, and its levels."""

    variance: float
    share: float
    low: float
    high: float
    levels: int


@dataclass(frozen=True)
class Components:
    """One component for each factor, then `rest`, what no single factor explains; `total` is their sum.

    The rest is None where there is one factor alone, so that nothing is left for it.
    """

    factors: Sequence[Component]
    rest: Component | None
    total: float


def variance_components(y: Sequence[float], levels: Sequence[Sequence[object]]) -> Components:
    """Estimate the components from N observations y [N] at the factors' levels [k][N].

    The estimates are those of the analysis of variance, where negative ones count as zero. The intervals of shares are
    generalised confidence intervals: in an orthogonal design df_i MS_i / E[MS_i] are independent chi-square variables,
    so that simulated chi-square draws turn the observed mean squares into a distribution of the expected ones, and
    that into one of the shares.

    Raises DesignError where the design is not orthogonal or leaves no degree of freedom for the rest.
    """
    values = np.asarray(y, np.float64)
    codes = [_codes(factor, len(values)) for factor in levels]
    check_design(codes)
    counts = [int(code.max()) + 1 for code in codes]
    total_square = float(((values - values.mean()) ** 2).sum())
    squares = [_sum_of_squares(values, code) for code in codes]
    freedom = [count - 1 for count in counts]
    squares.append(max(0.0, total_square - sum(squares)))
    freedom.append(len(values) - 1 - sum(freedom))
    squares = [square if square > SMALLEST * total_square else 0.0 for square in squares]
    repeats = np.array([len(values) / count for count in counts])

    mean_squares = np.array(squares) / np.array(freedom)
    found = _components(mean_squares[:, None], repeats)[:, 0]
    rng = np.random.Generator(np.random.PCG64(0))  # the same data give the same interval
    pivots = np.stack([square / rng.chisquare(df, DRAWS) for square, df in zip(squares, freedom, strict=True)])
    simulated = _components(pivots, repeats)
    shares = simulated / np.maximum(simulated.sum(0), np.finfo(float).tiny)
    low, high = np.quantile(shares, [0.025, 0.975], axis=1)
    if not _any_effect(mean_squares, freedom):
        high[-1] = 1.0
    total = float(found.sum())
    made = [
        Component(float(variance), float(variance) / total if total else 0.0, float(bottom), float(top), count)
        for variance, bottom, top, count in zip(found, low, high, [*counts, len(values)], strict=True)
    ]
    return Components(made[:-1], made[-1], total)


def check_design(codes: Sequence[NDArray[np.int64]]) -> None:
    """Raise DesignError with the reason, unless the levels of all factors [k][N], numbered from 0, are orthogonal."""
    if not codes:
        raise DesignError("there is no source of randomness to compare")
    for number, code in enumerate(codes):
        counts = np.bincount(code)
        if len(counts) < 2:
            raise DesignError(f"source {number + 1} has one level only")
        if len(set(counts.tolist())) > 1:
            raise DesignError(f"source {number + 1} does not have each of its levels equally often")
        for other, earlier in enumerate(codes[:number]):
            pairs = np.bincount(earlier * len(counts) + code, minlength=(int(earlier.max()) + 1) * len(counts))
            if len(set(pairs.tolist())) > 1:
                raise DesignError(f"sources {other + 1} and {number + 1} do not have each pair of levels equally often")
    if sum(int(code.max()) for code in codes) >= len(codes[0]) - 1:
        raise DesignError("there are too few trials to tell the sources from the rest")


def _codes(levels: Sequence[object], size: int) -> NDArray[np.int64]:
    """Levels as whole numbers from 0 on, in the order in which they come."""
    if len(levels) != size:
        raise DesignError(f"there are {len(levels)} levels for {size} values")
    known = {level: number for number, level in enumerate(dict.fromkeys(levels))}
    return np.array([known[level] for level in levels], np.int64)


def _sum_of_squares(values: Array, code: NDArray[np.int64]) -> float:
    """Return how far the means of a factor's levels are from the overall mean, squared and summed over all values."""
    counts = np.bincount(code)
    means = np.bincount(code, values) / counts
    return float((counts * (means - values.mean()) ** 2).sum())


def _any_effect(mean_squares: Array, freedom: Sequence[int]) -> bool:
    """Return whether an F test tells some factor from the rest, at 2.5 % over all factors (Bonferroni).

    Where it tells none, the rest may be everything. Simulated shares of several factors are rarely all zero, so that
    their quantile would leave this case out.
    """
    from scipy.special import fdtrc  # late: scipy.stats has it too, but takes a second to import

    factors = len(freedom) - 1
    if mean_squares[-1] == 0:
        return bool(mean_squares[:-1].any())
    ratios = mean_squares[:-1] / mean_squares[-1]
    p = [float(fdtrc(df, freedom[-1], ratio)) for df, ratio in zip(freedom[:-1], ratios, strict=True)]
    return min(p) < 0.025 / factors


def _components(mean_squares: Array, repeats: Array) -> Array:
    """Variances [k + 1, ...] from mean squares [k + 1, ...], the last one that of the rest.

    E[MS_i] = var_rest + repeats_i var_i, so var_i = (MS_i - MS_rest) / repeats_i; a negative one counts as zero.
    """
    rest = mean_squares[-1:]
    factors = np.maximum(0.0, (mean_squares[:-1] - rest) / repeats[:, None])
    return np.concatenate([factors, rest])
