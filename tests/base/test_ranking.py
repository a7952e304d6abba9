"""Ranks, against cases by hand and against other people's code."""

import numpy as np
import pytest
from scipy.stats import binomtest

from fedbench.base.ranking import alike, exact_interval, improvement, improvements, iqm, mean_ranks

nan = float("nan")


def test_mean_ranks_by_hand() -> None:
    # Two cells with one seed each: ranks 1 2 3, and 2.5 1 2.5 (a tie).
    found = mean_ranks(np.array([[[9.0, 8.0, 7.0]], [[5.0, 6.0, 5.0]]]))
    assert found.ranks.tolist() == [1.75, 1.5, 2.75]
    assert found.cells == 2
    # Demsar's table: q of three competitors at 5 % is 2.343.
    assert found.critical == pytest.approx(2.343 * (3 * 4 / (6 * 2)) ** 0.5, abs=2e-3)


def test_seeds_that_lack_a_competitor_are_left_out_and_seeds_are_no_cells() -> None:
    cell = [[9.0, 8.0], [nan, 8.0], [7.0, 8.0]]
    found = mean_ranks(np.array([cell, [[nan, 1.0]] * 3]))
    assert found.ranks.tolist() == [1.5, 1.5]
    assert found.cells == 1


def test_ranks_agree_with_scikit_posthocs_and_scipy() -> None:
    posthocs = pytest.importorskip("scikit_posthocs", reason="scikit-posthocs is not installed")
    scores = np.random.default_rng(1).normal(size=(12, 1, 5)) + np.arange(5) * 0.8
    found, p = mean_ranks(scores), posthocs.posthoc_nemenyi_friedman(scores[:, 0]).to_numpy()
    apart = np.abs(found.ranks[:, None] - found.ranks[None, :])
    for i, j in zip(*np.triu_indices(5, 1), strict=True):
        assert (apart[i, j] > found.critical) == (p[i, j] < 0.05)
    assert 0 < found.p < 0.05
    assert len({bool(value < 0.05) for value in p[np.triu_indices(5, 1)]}) == 2  # some are apart, some are not


def test_competitors_that_are_alike_have_no_p() -> None:
    found = mean_ranks(np.ones((4, 3, 3)))
    assert found.ranks.tolist() == [2, 2, 2]
    assert np.isnan(found.p)
    assert mean_ranks(np.full((2, 1, 3), nan)).cells == 0


def test_the_interquartile_mean_by_hand() -> None:
    assert iqm(np.array([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 100.0]])).value == 3.5
    assert iqm(np.array([[1.0, nan, 3.0]])).value == 2


def test_its_interval_is_stratified_by_cell() -> None:
    apart = np.array([[1.0, 1.0, 1.0], [50.0, 50.0, 50.0], [90.0, 90.0, 90.0]])
    assert iqm(apart) == pytest.approx((1 / 5 + 50 * 3 / 5 + 90 / 5,) * 3)  # seeds do not differ
    some = iqm(apart + np.array([-1.0, 0.0, 1.0]))
    assert some.low < some.value < some.high


def test_the_probability_of_improvement_by_hand() -> None:
    one = np.array([[2.0, 2.0, 0.0, 0.3], [9.0, 9.0, nan, nan], [nan, nan, nan, nan]])
    other = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    found, cells = improvement(one, other, margin=0.5)
    assert cells == 2
    assert found.value == pytest.approx((2.5 / 4 + 1) / 2)
    back, _ = improvement(other, one, margin=0.5)
    assert back.value == pytest.approx(1 - found.value)
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize(("cells", "seeds", "told_apart"), [(2, 1, False), (5, 1, False), (6, 1, True), (2, 3, True)])
def test_few_pairs_that_agree_may_do_so_by_chance(cells: int, seeds: int, told_apart: bool) -> None:
    """Five of five fall alike in one of 16 cases, six of six in one of 32."""
    found, _ = improvement(np.ones((cells, seeds)), np.zeros((cells, seeds)), margin=0.5)
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(0.025 ** (1 / (cells * seeds)))
    assert (found.low > 0.5) == told_apart


def test_exact_intervals_are_those_of_scipy() -> None:
    for heads, tosses in ((0, 5), (3, 7), (60, 72), (9, 9)):
        wanted = binomtest(heads, tosses).proportion_ci(0.95, "exact")
        assert exact_interval(heads / tosses, tosses) == pytest.approx((wanted.low, wanted.high))


def test_nothing_in_common_is_no_number() -> None:
    found, cells = improvement(np.array([[nan]]), np.array([[1.0]]), 0.5)
    assert cells == 0 and np.isnan(found.value)


def test_every_pair_is_compared_and_one_way_is_the_rest_of_the_other() -> None:
    scores = np.random.default_rng(2).normal(size=(6, 3, 3)) + np.array([0.0, 1.0, 3.0])
    scores[2, 1, 0] = nan
    found = improvements(scores, margin=0.5)
    alone, cells = improvement(scores[:, :, 2], scores[:, :, 0], 0.5)
    assert found[2][0][0] == pytest.approx(alone) and found[2][0][1] == cells == 6
    assert found[0][2][0] == pytest.approx([1 - found[2][0][0][k] for k in (0, 2, 1)])
    assert found[1][1][0].value == 0.5
    assert found[1][1][0].low < 0.5 < found[1][1][0].high


def test_groups_that_cannot_be_told_apart_by_hand() -> None:
    assert alike([1.0, 1.5, 2.4, 4.0, 4.2], critical=1.0) == [(0, 1), (1, 2), (3, 4)]
    assert alike([1.0, 1.5, 1.9], critical=1.0) == [(0, 2)]  # those inside are left out
    assert alike([1.0, 3.0], critical=1.0) == []


def test_one_cell_says_nothing_of_others_and_one_seed_nothing_of_others() -> None:
    found, cells = improvement(np.array([[2.0, 3.0]]), np.array([[0.0, 0.0]]), 0.5)
    assert (found.value, cells) == (1, 1) and np.isnan(found.low) and found.text == "1.00"
    assert np.isnan(iqm(np.array([[1.0], [2.0]])).low)
