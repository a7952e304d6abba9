import pytest
from scipy import stats

from fedbench.analysis.statistics.spread import paired, spread


def test_the_interval_is_students() -> None:
    values = [70.1, 71.3, 69.8]
    found = spread(values)
    low, high = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.mean == pytest.approx(70.4)
    assert found.n == 3


def test_small_samples_say_what_they_can() -> None:
    assert spread([]) == (None, None, 0, None, None)
    assert spread([3.0]) == (3.0, None, 1, None, None)


def test_differences_are_paired_by_seed() -> None:
    found = paired({8: 71.0, 9: 60.0, 10: 5.0}, {8: 70.0, 9: 58.0})
    assert (found.mean, found.n) == (1.5, 2)
    assert found.low == pytest.approx(1.5 - stats.t.ppf(0.975, 1) * 0.5)
