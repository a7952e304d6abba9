"""Whether moderated variances would keep the promise of verdicts in every cell: python benchmarks/moderated.py.

Empirical Bayes draws the variance of each cell towards a common one, and counts further degrees of freedom for that
(G. K. Smyth, Linear models and empirical Bayes methods for assessing differential expression in microarray experiments,
Statistical Applications in Genetics and Molecular Biology 3, 2004). Cells of a study that differ in noise break its
assumption. Simulated are a study's cells with three seeds each, under the plain t test and four ways to moderate:

    all       one common variance
    strata    one for the half of the cells with the smaller, one for the half with the larger observed variances
    known     the same, with halves by a noisy covariate that is known beforehand, such as the level of accuracy
    trend     a common variance that is a line in that covariate, on logarithms

The false rate is that of the worst cell: how often its difference, which is zero, is told from zero (promise: 5 %). The
power is for a difference of two standard deviations, in the mean over cells.
"""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma
from scipy.stats import t as student

Array = NDArray[np.float64]
SEEDS, SIMULATIONS, LEVEL, EFFECT = 3, 20_000, 0.05, 2.0
COVARIATE_NOISE = 0.5  # of a covariate whose standard deviation over cells is one
SPREADS: dict[str, Callable[[int], Array]] = {
    "equal": lambda cells: np.ones(cells),
    "0.2 and 2, halves": lambda cells: np.repeat([0.2, 2.0], [cells // 2, cells - cells // 2]),
    "0.2, one cell 2": lambda cells: np.append(np.full(cells - 1, 0.2), 2.0),
    "0.2 to 2, even": lambda cells: np.geomspace(0.2, 2.0, cells),
    "0.7 to 1.4, even": lambda cells: np.geomspace(0.7, 1.4, cells),
}
WAYS = ("plain", "all", "strata", "known", "trend")


def inverse_trigamma(values: Array) -> Array:
    """The argument at which the trigamma function has a value, by Newton's method on its reciprocal."""
    found = 0.5 + 1 / values
    for _ in range(50):
        here = polygamma(1, found)
        found = found + here * (1 - here / values) / polygamma(2, found)
    return np.asarray(found)


def moderated(variances: Array, lines: Array, freedom: int) -> tuple[Array, Array]:
    """Variances [simulations, cells] drawn towards a line in known columns, and the degrees of freedom of each.

    lines: [simulations, cells, columns], of which the first is constant.
    """
    logs = np.log(variances) - digamma(freedom / 2) + np.log(freedom / 2)
    solved = np.linalg.pinv(lines) @ logs[..., None]
    fitted = (lines @ solved)[..., 0]
    left = ((logs - fitted) ** 2).sum(1) / (logs.shape[1] - lines.shape[2]) - polygamma(1, freedom / 2)
    prior = np.where(left > 0, 2 * inverse_trigamma(np.maximum(left, 1e-6)), np.inf)[:, None]
    with np.errstate(invalid="ignore"):
        centre = fitted + np.where(np.isinf(prior), 0.0, digamma(prior / 2) - np.log(prior / 2))
        common = np.exp(centre)
        mixed = (prior * common + freedom * variances) / (prior + freedom)
    return np.where(np.isinf(prior), common, mixed), np.broadcast_to(
        np.minimum(prior + freedom, variances.shape[1] * freedom), variances.shape
    )


def in_halves(variances: Array, by: Array, freedom: int) -> tuple[Array, Array]:
    """Each half of the cells, ordered by a number, moderated for itself."""
    order, half = np.argsort(by, axis=1), variances.shape[1] // 2
    made, free = np.empty_like(variances), np.empty_like(variances)
    for part in (order[:, :half], order[:, half:]):
        drawn, degrees = moderated(np.take_along_axis(variances, part, 1), np.ones((*part.shape, 1)), freedom)
        np.put_along_axis(made, part, drawn, 1)
        np.put_along_axis(free, part, degrees, 1)
    return made, free


def rates(spreads: Array, effect: float, way: str, rng: np.random.Generator) -> Array:
    """How often the difference of each cell is told from zero."""
    cells, freedom = len(spreads), SEEDS - 1
    drawn = spreads * (rng.standard_normal((SIMULATIONS, SEEDS, cells)) + effect)
    mean, variances = drawn.mean(1), drawn.var(1, ddof=1)
    logs = np.log(spreads)
    scaled = (logs - logs.mean()) / (logs.std() or 1.0)
    covariate = scaled + COVARIATE_NOISE * rng.standard_normal((SIMULATIONS, cells))
    if way == "plain":
        used, degrees = variances, np.full_like(variances, freedom)
    elif way == "all":
        used, degrees = moderated(variances, np.ones((*variances.shape, 1)), freedom)
    elif way == "strata":
        used, degrees = in_halves(variances, variances, freedom)
    elif way == "known":
        used, degrees = in_halves(variances, covariate, freedom)
    else:
        used, degrees = moderated(variances, np.stack([np.ones_like(covariate), covariate], 2), freedom)
    p = 2 * student.sf(np.abs(mean) / np.sqrt(used / SEEDS), degrees)
    return np.asarray((p <= LEVEL).mean(0))


def main() -> int:
    """Print the false rate of the worst cell and the power, in %, for every number of cells, spread and way."""
    print("| cells | standard deviations | " + " | ".join(WAYS) + " |")
    print("| ---: | --- | " + " | ".join("---:" for _ in WAYS) + " |")
    for cells in (10, 20, 40):
        for name, make in SPREADS.items():
            shown = []
            for way in WAYS:
                rng = np.random.default_rng([cells, len(name)])
                false, power = (rates(make(cells), effect, way, rng) for effect in (0.0, EFFECT))
                shown.append(f"{100 * false.max():.1f} / {100 * power.mean():.0f}")
            print(f"| {cells} | {name} | " + " | ".join(shown) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
