"""Intervals, p values and verdicts, against cases by hand and against scipy."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedbench.analysis.statistics.verdicts import (
    DECIDED,
    EVERY,
    INNER,
    LEVEL,
    ONE,
    SOME,
    Rule,
    deciding,
    judge,
    over_looks,
    q_values,
)

nan, inf = float("nan"), float("inf")


def test_one_difference_is_judged_by_students_t() -> None:
    sample = np.array([1.2, 0.4, 2.1, 0.9])
    found = judge(sample, low=0.3)
    interval = stats.t.interval(0.95, 3, sample.mean(), stats.sem(sample))
    assert (found.low, found.high) == pytest.approx(interval)
    assert found.holds == pytest.approx(stats.ttest_1samp(sample, 0.3, alternative="greater").pvalue)
    assert found.fails == pytest.approx(stats.ttest_1samp(sample, 0.3, alternative="less").pvalue)
    assert found.p == pytest.approx(stats.ttest_1samp(sample, 0.3).pvalue)
    assert [float(found.value), int(found.n)] == [pytest.approx(sample.mean()), 4]


@pytest.mark.parametrize("rule", [ONE, SOME, EVERY, INNER])
def test_a_verdict_is_where_the_interval_lies(rule: Rule) -> None:
    """Intervals and p values are two ways to the same verdict, for every rule and bound."""
    rng = np.random.default_rng(0)
    sample = rng.standard_normal((4, *(5, 2)[: rule.axes], 500)) + rng.normal(0, 3, 500)
    for low, high in ((0.0, inf), (-inf, 0.0), (-2.0, 2.0)):
        found = judge(sample, low, high, rule)
        inside = (found.low > low) & (found.high < high)
        beyond = (found.high < low) | (found.low > high)
        assert ((found.verdicts == "holds") == inside).all()
        assert ((found.verdicts == "fails") == beyond).all()
        assert {"holds", "fails", "open"} == set(found.verdicts.tolist())


def test_many_samples_are_judged_as_each_of_them_alone() -> None:
    sample = np.random.default_rng(0).standard_normal((5, 3, 2, 7))
    sample[1, 0, 0, 2], sample[:, 1, 1, 3] = nan, -inf
    together = judge(sample, rule=INNER)
    for number in range(7):
        alone = judge(sample[..., number], rule=INNER)
        assert [float(part[number]) for part in together] == pytest.approx([float(part) for part in alone])


def test_some_of_several_is_corrected_for_their_number_and_each_of_them_is_not() -> None:
    sample = np.array([[1.0, 4.0, -9.0], [1.3, 4.8, -9.5], [0.7, 4.4, -9.1]])
    best, worst = sample[:, 1], sample[:, 2]
    some, every = judge(sample, rule=SOME), judge(sample, rule=EVERY)
    assert (some.value, every.value) == pytest.approx((best.mean(), worst.mean()))
    assert (deciding(sample, SOME), deciding(sample, EVERY)) == (1, 2)
    assert some.holds == pytest.approx(3 * stats.ttest_1samp(best, 0, alternative="greater").pvalue)
    assert some.fails == pytest.approx(stats.ttest_1samp(best, 0, alternative="less").pvalue)
    assert every.fails == pytest.approx(3 * stats.ttest_1samp(worst, 0, alternative="less").pvalue)
    assert every.holds == pytest.approx(stats.ttest_1samp(worst, 0, alternative="greater").pvalue)


def test_an_inner_point_must_beat_both_ends_and_one_end_all_inner_points() -> None:
    rng = np.random.default_rng(3)
    noise = 0.1 * rng.standard_normal((5, 4))

    def sample(means: list[float]) -> NDArray[np.float64]:
        values = noise + means
        return values[:, 1:-1, None] - values[:, None, [0, -1]]

    assert judge(sample([0, 2, 1, 0]), rule=INNER).verdicts == "holds"
    assert judge(sample([0, 2, 1, 5]), rule=INNER).verdicts == "fails"
    assert judge(sample([5, 2, 1, 0]), rule=INNER).verdicts == "fails"
    assert judge(sample([0, 2, 1, 2]), rule=INNER).verdicts == "open"
    assert deciding(sample([0, 1, 2, 0]), INNER) == 1
    hill = sample([0, 2, 1, 0])
    beats = stats.ttest_1samp(hill, 0, alternative="greater").pvalue  # [inner points, ends]
    assert judge(hill, rule=INNER).holds == pytest.approx(2 * beats.max(axis=1).min())


@pytest.mark.parametrize(
    ("sample", "verdict", "within_one"),
    [
        ([-inf, -inf, -inf], "fails", "fails"),
        ([inf, inf, inf], "holds", "fails"),
        ([-inf, -inf], "open", "open"),  # fewer than three seeds
        ([-inf, nan, -inf, -inf], "open", "open"),  # not in every seed
        ([-inf, 0.5, 0.5, 0.5], "open", "open"),
        ([inf, 0.5, 0.5, 0.5], "open", "open"),
        ([-inf, inf, 0.5, 0.5], "open", "open"),
        ([nan, nan, nan], "no data", "no data"),
        ([nan, 0.5, 0.5, 0.5], "holds", "holds"),
        ([0.5], "open", "open"),
        ([0.0, 0.0, 0.0], "open", "holds"),
    ],
)
def test_divergence_decides_in_every_seed_or_not_at_all(sample: list[float], verdict: str, within_one: str) -> None:
    assert judge(sample).verdicts == verdict
    assert judge(sample, -1, 1).verdicts == within_one


@pytest.mark.parametrize("seeds", [3, 4, 10])
def test_a_decision_by_divergence_has_the_p_value_of_its_pattern(seeds: int) -> None:
    """Two sides that diverge with the same probability u show it with (u (1 - u))^n, at most 4^-n."""
    for end, verdict in ((inf, "holds"), (-inf, "fails")):
        found = judge(np.full(seeds, end))
        assert found.verdicts == verdict
        assert float(found.p) == pytest.approx(2 * 0.25**seeds)
        assert sorted([float(found.holds), float(found.fails)]) == pytest.approx([0.25**seeds, 1.0])
    assert max((u * (1 - u)) ** seeds for u in np.linspace(0, 1, 101)) == pytest.approx(0.25**seeds)


@pytest.mark.parametrize(("rule", "end", "verdict"), [(SOME, inf, "holds"), (EVERY, -inf, "fails")])
def test_divergence_at_one_of_several_points_is_corrected_for_their_number(
    rule: Rule, end: float, verdict: str
) -> None:
    """Of four points, one decides by divergence with four seeds (4 / 4^4 = 1.6 %), and not with three (6.2 %)."""
    for seeds, wanted in ((3, "open"), (4, verdict)):
        sample = np.random.default_rng(0).standard_normal((seeds, 4))
        sample[:, 2] = end
        found = judge(sample, rule=rule)
        assert found.verdicts == wanted
        assert float(found.p) == pytest.approx(min(1.0, 2 * 4 * 0.25**seeds))
        bound = float(found.low if end > 0 else found.high)
        assert (bound == end) == (wanted == verdict)  # the bound says what the p value does


def test_divergence_does_not_make_other_claims_surer() -> None:
    p = [float(judge(sample).p) for sample in ([inf] * 3, [-inf] * 3, [inf] * 3, [1.0, 2.2, 3.0])]
    assert min(q_values(p)) == pytest.approx(2 * 0.25**3 * 4 / 3)


def test_the_mean_beside_a_divergence_is_over_the_seeds_that_both_finished() -> None:
    found = judge([-inf, 1.0, 2.0])
    assert [float(part) for part in (found.value, found.low, found.high, found.n, found.p)] == [1.5, -inf, inf, 2, 1]


def test_a_second_test_must_decide_likewise() -> None:
    assert judge([1.0, 1.1, 0.9], also=(0.02, 1.0)).verdicts == "holds"
    assert judge([1.0, 1.1, 0.9], also=(0.03, 1.0)).verdicts == "open"
    assert judge([-1.0, -1.1, -0.9], also=(1.0, 0.03)).verdicts == "open"


def test_a_difference_is_too_small_by_two_one_sided_t_tests() -> None:
    sample = np.array([0.2, -0.1, 0.15, 0.05, 0.1])
    found = judge(sample, margin=0.4)
    above = stats.ttest_1samp(sample, -0.4, alternative="greater").pvalue
    below = stats.ttest_1samp(sample, 0.4, alternative="less").pvalue
    assert float(found.small) == pytest.approx(max(above, below))
    assert found.verdicts == "too small"
    assert float(found.p) == pytest.approx(2 * max(above, below))
    assert judge(sample).verdicts == judge(sample, margin=0.11).verdicts == "open"


def test_too_small_goes_before_a_direction_that_is_sure() -> None:
    sample = [0.2, 0.21, 0.19, 0.2]
    assert judge(sample).verdicts == "holds"
    assert judge(sample, margin=0.5).verdicts == "too small"
    assert judge(sample, margin=0.1).verdicts == "holds"


@pytest.mark.parametrize(("rule", "parts"), [(SOME, (3, 1)), (EVERY, (1, 3))])
def test_of_several_points_what_counts_is_within_the_margin(rule: Rule, parts: tuple[int, int]) -> None:
    """The best (SOME) or the worst (EVERY) of three differences, each side corrected as an interval's bound is."""
    sample = np.random.default_rng(2).normal(0, 0.3, (6, 3))
    above = stats.ttest_1samp(sample, -1, alternative="greater").pvalue
    below = stats.ttest_1samp(sample, 1, alternative="less").pvalue
    pick = min if rule is SOME else max
    expected = max(min(1.0, parts[0] * pick(above)), min(1.0, parts[1] * (max if rule is SOME else min)(below)))
    assert float(judge(sample, rule=rule, margin=1).small) == pytest.approx(expected)


def test_equality_to_the_last_digit_is_too_small_and_divergence_never_is() -> None:
    assert judge([0.0, 0.0, 0.0], margin=0.5).verdicts == "too small"
    for sample in ([-inf, 0.0, 0.0, 0.0], [inf] * 3, [-inf] * 3):
        assert judge(sample, margin=0.5).verdicts != "too small"


def test_a_look_spends_its_part_of_the_level() -> None:
    sample = np.random.default_rng(5).normal(1, 1, (5, 200))
    for level in (0.008, 0.02):
        found = judge(sample, margin=0.7, level=level)
        plain = judge(sample, margin=0.7)
        assert found.holds == pytest.approx(np.minimum(1, plain.holds * LEVEL / level))
        interval = stats.t.interval(1 - level, 4, sample.mean(0), stats.sem(sample))
        assert (found.low == pytest.approx(interval[0])) and (found.high == pytest.approx(interval[1]))
        assert ((found.verdicts == "holds") <= (found.low > 0)).all()


def test_looks_stop_at_the_first_decision_and_report_the_smallest_p_value() -> None:
    levels, counts = (0.01, 0.04), (3, 6)
    sample = np.random.default_rng(1).normal(0.8, 1, (6, 300))
    looks = [judge(sample[:n], level=level) for n, level in zip(counts, levels, strict=True)]
    found = over_looks(looks)
    p = [stats.ttest_1samp(sample[:n], 0).pvalue * LEVEL / level for n, level in zip(counts, levels, strict=True)]
    first = np.isin(looks[0].verdicts, DECIDED)
    assert 0 < first.sum() < 300
    assert (found.verdicts[first] == looks[0].verdicts[first]).all()
    assert (found.n == np.where(first, 3, 6)).all()
    assert found.p == pytest.approx(np.minimum(1, np.where(first, p[0], np.minimum(*p))))
    assert (np.isin(found.verdicts, DECIDED) == (found.p <= LEVEL)).all()


def test_q_values_by_hand() -> None:
    assert q_values([0.01, 0.5, 0.02, 0.03]) == pytest.approx([0.04, 0.5, 0.04, 0.04])
    assert q_values([]) == []


def test_q_values_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for number in range(1, 30):
        for p in (rng.random(number), rng.integers(0, 5, number) / 4):
            assert q_values(p.tolist()) == stats.false_discovery_control(p).tolist()
