"""Ranks, against cases by hand and against other people's code."""

import numpy as np
import pytest
from scipy.stats import binomtest, friedmanchisquare

from fedbench.analysis.statistics.ranking import (
    Ahead,
    alike,
    exact_interval,
    exact_p,
    fewest_cells,
    improvement,
    improvements,
    mean_ranks,
)

nan, inf = float("nan"), float("inf")


def test_mean_ranks_by_hand() -> None:
    # Two cells with one seed each: ranks 1 2 3, and 2.5 1 2.5 (a tie).
    found = mean_ranks(np.array([[[9.0, 8.0, 7.0]], [[5.0, 6.0, 5.0]]]))
    assert found.ranks.tolist() == [1.75, 1.5, 2.75]
    assert found.cells == 2


def test_seeds_that_lack_a_competitor_are_left_out_and_seeds_are_no_cells() -> None:
    cell = [[9.0, 8.0], [nan, 8.0], [7.0, 8.0]]
    found = mean_ranks(np.array([cell, [[nan, 1.0]] * 3]))
    assert found.ranks.tolist() == [1.5, 1.5]
    assert found.cells == 1


def test_friedmans_test_is_that_of_scipy_from_ten_cells_on() -> None:
    scores = np.random.default_rng(1).normal(size=(12, 1, 5)) + np.arange(5) * 0.8
    assert mean_ranks(scores).p == pytest.approx(friedmanchisquare(*scores[:, 0].T).pvalue)
    assert 0 < mean_ranks(scores[:10]).p < 0.05
    assert np.isnan(mean_ranks(scores[:9]).p)


def test_what_diverged_is_behind_all_that_did_not_and_shares_its_rank() -> None:
    assert mean_ranks(np.array([[[-inf, 5.0, -inf]]])).ranks.tolist() == [2.5, 1, 2.5]


def test_competitors_that_are_alike_have_no_p() -> None:
    found = mean_ranks(np.ones((4, 3, 3)))
    assert found.ranks.tolist() == [2, 2, 2]
    assert np.isnan(found.p)
    assert mean_ranks(np.full((2, 1, 3), nan)).cells == 0


def test_the_probability_of_improvement_by_hand() -> None:
    one = np.array([[2.0, 2.0, 0.0, 0.3], [9.0, 9.0, nan, nan], [nan, nan, nan, nan]])
    other = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    found = improvement(one, other, margin=0.5)
    assert found.cells == 2
    assert found.value == pytest.approx((2.5 / 4 + 1) / 2)
    assert improvement(other, one, margin=0.5) == pytest.approx(found.reverse)
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize(("cells", "seeds", "told_apart"), [(2, 1, False), (5, 1, False), (6, 1, True), (5, 20, False)])
def test_cells_are_tosses_of_a_coin_however_many_seeds_they_have(cells: int, seeds: int, told_apart: bool) -> None:
    """Five of five fall alike in one of 16 cases, six of six in one of 32."""
    found = improvement(np.ones((cells, seeds)), np.zeros((cells, seeds)), margin=0.5)
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(0.025 ** (1 / cells))
    assert found.p == pytest.approx(2 / 2**cells)
    assert found.sure == (found.low > 0.5) == told_apart


def test_exact_intervals_and_p_values_are_those_of_scipy() -> None:
    for heads, tosses in ((0, 5), (3, 7), (60, 72), (9, 9), (5, 10)):
        wanted = binomtest(heads, tosses)
        interval = wanted.proportion_ci(0.95, "exact")
        assert exact_interval(heads / tosses, tosses) == pytest.approx((interval.low, interval.high))
        assert exact_p(heads / tosses, tosses) == pytest.approx(wanted.pvalue)


def test_nothing_in_common_is_no_number() -> None:
    found = improvement(np.array([[nan]]), np.array([[1.0]]), 0.5)
    assert found.cells == 0 and np.isnan(found.value) and not found.sure
    assert improvement(np.array([[-inf]]), np.array([[-inf]]), 0.5).cells == 0  # both diverged


@pytest.mark.parametrize(
    ("one", "value"),
    [
        ([-inf, -inf, -inf], 0),
        ([-inf, 9.0, 9.0], 0.5),
        ([-inf, 0.0, 0.0], 0),
        ([9.0, 9.0, 9.0], 1),
        ([9.0, 0.0, 0.0], 1 / 3),
    ],
)
def test_who_diverged_where_the_other_did_not_is_not_ahead_in_this_cell(one: list[float], value: float) -> None:
    scores, other = np.array([one]), np.ones((1, 3))
    assert improvement(scores, other, 0.0).value == pytest.approx(value)
    assert improvement(other, scores, 0.0).value == pytest.approx(1 - value)


def test_every_pair_is_compared_and_p_values_are_holms() -> None:
    scores = np.random.default_rng(2).normal(size=(6, 3, 3)) + np.array([0.0, 1.0, 3.0])
    scores[2, 1, 0] = nan
    found = improvements(scores, margin=0.5)
    alone = {pair: improvement(scores[:, :, pair[0]], scores[:, :, pair[1]], 0.5) for pair in ((0, 1), (0, 2), (1, 2))}
    assert found[2][0][:4] == pytest.approx(alone[0, 2].reverse[:4]) and found[2][0].cells == 6
    assert found[0][2] == pytest.approx(found[2][0].reverse)
    least, middle, most = sorted(alone, key=lambda pair: alone[pair].p)
    wanted = [3 * alone[least].p, max(3 * alone[least].p, 2 * alone[middle].p)]
    assert [found[i][j].p for i, j in (least, middle)] == pytest.approx(wanted)
    assert found[most[0]][most[1]].p == pytest.approx(min(1, max(wanted[1], alone[most].p)))


@pytest.mark.parametrize(("pairs", "cells"), [(1, 6), (3, 7), (10, 9), (45, 11)])
def test_so_many_cells_it_takes_to_tell_any_two_apart(pairs: int, cells: int) -> None:
    assert fewest_cells(pairs) == cells
    assert exact_p(1.0, cells) * pairs <= 0.05 < exact_p(1.0, cells - 1) * pairs


def test_groups_that_cannot_be_told_apart_by_hand() -> None:
    def told(count: int, *apart: tuple[int, int]) -> list[list[Ahead]]:
        return [[Ahead(0.9, 0, 1, 9, 0.01 if (i, j) in apart else 0.5) for j in range(count)] for i in range(count)]

    assert alike(told(5, (0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4))) == [(0, 1), (1, 2), (3, 4)]
    assert alike(told(3)) == [(0, 2)]  # those inside are left out
    assert alike(told(2, (0, 1))) == []
