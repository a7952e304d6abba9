import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbench.indicators.heterogeneity import (
    class_shares,
    heterogeneity_coherence,
    heterogeneity_degree,
    partition_heterogeneity,
    weight_correlations,
)


def test_a_cohort_with_the_overall_mix_has_coherence_one() -> None:
    shares = np.array([[0.5, 0.5, 0.0], [0.1, 0.1, 0.8]])
    overall = 0.25 * shares[0] + 0.75 * shares[1]
    assert heterogeneity_coherence(np.array([0.25, 0.75]), shares, overall) == pytest.approx((1, 1))


def test_disjoint_classes_have_coherence_zero() -> None:
    assert heterogeneity_coherence(np.ones(1), np.array([[1.0, 0.0]]), np.array([0.0, 1.0])) == (0, 0)


def test_coherence_by_hand() -> None:
    value, _ = heterogeneity_coherence(np.array([0.5, 0.5]), np.array([[1.0, 0.0], [0.6, 0.4]]), np.array([0.5, 0.5]))
    assert value == pytest.approx(1 - 0.5 * (0.3 + 0.3))


@given(st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any), min_size=1, max_size=6))
def test_coherence_lies_between_zero_and_one(counts: list[list[int]]) -> None:
    table = np.array(counts)
    shares, overall = class_shares(table), table.sum(0) / table.sum()
    weights = np.full(len(table), 1 / len(table))
    value, cosine = heterogeneity_coherence(weights, shares, overall)
    assert -1e-12 <= value <= 1 + 1e-12
    assert -1e-12 <= cosine <= 1 + 1e-12


def test_the_degree_is_the_inverse_variance_of_the_shares() -> None:
    degrees = heterogeneity_degree(np.array([[0.5, 0.5], [1.0, 0.0], [0.7, 0.3]]))
    assert degrees[0] == np.inf
    assert degrees[1:] == pytest.approx([4.0, 25.0])


def test_correlations_are_pearsons_and_none_where_undefined() -> None:
    sums, sizes, degrees = np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 40.0]), np.array([3.0, 2.0, 1.0])
    found = weight_correlations(sums, sizes, degrees)
    assert found["pearson_size"] == pytest.approx(1)
    assert found["pearson_degree"] == pytest.approx(np.corrcoef(sums, degrees)[0, 1])
    assert found["pearson_product"] == pytest.approx(np.corrcoef(sums, sizes * degrees)[0, 1])
    assert weight_correlations(sums, np.ones(3), np.full(3, np.inf)) == dict.fromkeys(found)


def test_heterogeneity_of_a_partition_by_hand() -> None:
    found = partition_heterogeneity(np.array([[30, 0], [0, 10]]))
    assert found["label_distance"] == pytest.approx((0.25 + 0.75) / 2)
    assert found["size_variation"] == pytest.approx(10 / 20)
    assert found["effective_clients"] == pytest.approx(40**2 / (30**2 + 10**2))
    assert (found["smallest_client"], found["largest_client"]) == (10, 30)


@given(
    n=st.integers(1, 12), mix=st.lists(st.integers(0, 9), min_size=2, max_size=5).filter(any), size=st.integers(1, 9)
)
def test_equal_clients_have_no_heterogeneity_and_all_count(n: int, mix: list[int], size: int) -> None:
    found = partition_heterogeneity(np.tile(size * np.array(mix), (n, 1)))
    assert found["label_distance"] == pytest.approx(0, abs=1e-12)
    assert found["size_variation"] == pytest.approx(0, abs=1e-12)
    assert found["effective_clients"] == pytest.approx(n)


def test_clients_with_a_class_each_are_as_far_apart_as_can_be() -> None:
    assert partition_heterogeneity(np.eye(10, dtype=np.int64))["label_distance"] == pytest.approx(0.9)
