from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbench.analysis.statistics.variance import Component, DesignError, variance_components

CROSSED = list(zip(*product(range(6), range(6)), strict=True))
ARRAY = list(zip(*((i, j, (i + j) % 5, (i + 2 * j) % 5) for i in range(5) for j in range(5)), strict=True))


def drawn(levels: Sequence[Sequence[int]], stds: Sequence[float], rest: float, rng: np.random.Generator) -> list[float]:
    """Observations of the model: a normal effect for each level of each factor, and a normal rest."""
    y = rest * rng.standard_normal(len(levels[0]))
    for std, column in zip(stds, levels, strict=True):
        y += std * rng.standard_normal(max(column) + 1)[list(column)]
    return [float(value) for value in y]


def parts(y: Sequence[float], levels: Sequence[Sequence[object]]) -> list[Component]:
    found = variance_components(y, levels)
    assert found.rest is not None
    return [*found.factors, found.rest]


def test_two_crossed_factors_have_the_mean_squares_of_the_textbook() -> None:
    # a = 2 rows, b = 3 columns: rows 1 2 6 and 3 5 7. MS of rows 6, of columns 10.5, of the rest 0.5, by hand.
    levels = [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    rows, columns, rest = parts([1, 2, 6, 3, 5, 7], levels)
    assert rest.variance == pytest.approx(0.5)
    assert rows.variance == pytest.approx((6 - 0.5) / 3)
    assert columns.variance == pytest.approx((10.5 - 0.5) / 2)
    assert sum(part.share for part in (rows, columns, rest)) == pytest.approx(1)


@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 1e3), shift=st.floats(-1e3, 1e3))
def test_shares_do_not_depend_on_unit_origin_or_order(seed: int, scale: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    y = drawn(CROSSED, (1.0, 0.5), 0.3, rng)
    before = parts(y, CROSSED)
    order = rng.permutation(len(y))
    moved = parts([shift + scale * y[i] for i in order], [[str(column[i]) for i in order] for column in CROSSED])
    for one, other in zip(before, moved, strict=True):
        assert other.share == pytest.approx(one.share, abs=1e-6)
        assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-6)
        assert 0 <= one.low <= one.high <= 1


def test_estimates_of_variances_are_right_on_average() -> None:
    rng = np.random.default_rng(3)
    stds, rest = (1.0, 0.7, 0.5, 0.8), 0.3  # large enough beside the rest that none is cut off at zero often
    found = [[part.variance for part in parts(drawn(ARRAY, stds, rest, rng), ARRAY)] for _ in range(400)]
    wanted = [std**2 for std in stds] + [rest**2]
    errors = np.std(found, axis=0) / 20
    assert (np.abs(np.mean(found, axis=0) - wanted) <= 3 * errors + 0.003).all()


@pytest.mark.parametrize(
    ("levels", "stds", "rest"),
    [
        (CROSSED, (1.0, 1.0), 0.3),
        (CROSSED, (1.0, 0.0), 0.5),
        (CROSSED, (0.0, 0.0), 1.0),
        (CROSSED, (2.0, 1.0), 0.2),
        (ARRAY, (1.0, 0.3, 0.3, 0.3), 0.3),
        (ARRAY, (0.5, 1.0, 0.0, 2.0), 1.0),
        (ARRAY, (0.0, 0.0, 0.0, 0.0), 1.0),
    ],
)
def test_intervals_of_shares_cover_95_percent(
    levels: Sequence[Sequence[int]], stds: Sequence[float], rest: float
) -> None:
    rng, repeats = np.random.default_rng(5), 200
    total = sum(std**2 for std in stds) + rest**2
    true = [std**2 / total for std in stds] + [rest**2 / total]
    covered = np.zeros(len(true))
    for _ in range(repeats):
        found = parts(drawn(levels, stds, rest, rng), levels)
        covered += [part.low - 1e-12 <= share <= part.high + 1e-12 for part, share in zip(found, true, strict=True)]
    # 0.95 less three standard errors of a share of 200 repetitions
    assert (covered / repeats >= 0.95 - 3 * (0.95 * 0.05 / repeats) ** 0.5).all()


def test_a_source_without_any_effect_has_no_share() -> None:
    rows, columns, rest = parts([float(column) for column in CROSSED[1]], CROSSED)
    assert (rows.share, columns.share, rest.share) == (0, 1, 0)
    assert (columns.low, columns.high) == (1, 1)


@pytest.mark.parametrize(
    ("levels", "reason"),
    [
        ([], "no source"),
        ([[0] * 6], "source 1 has one level only"),
        ([[0, 0, 0, 0, 1, 1]], "source 1 does not have each of its levels equally often"),
        ([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]], "sources 1 and 2 do not have each pair of levels equally often"),
        ([[0, 1, 2, 3, 4, 5]], "too few trials"),
    ],
)
def test_a_design_that_cannot_tell_is_refused_with_its_reason(levels: list[list[int]], reason: str) -> None:
    with pytest.raises(DesignError, match=reason):
        variance_components([1.0, 2.0, 3.0, 5.0, 8.0, 13.0], levels)
