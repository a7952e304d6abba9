from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbench import TrialConfig
from fedbench.base.errors import UserError
from fedbench.data.classes import Indices, Labels, apportion, class_order, longtail_counts
from fedbench.data.partitions import PARTITIONS, DataSettings, Partition, three_node
from fedbench.data.partitions.base import REDRAWS
from fedbench.data.partitions.dirichlet import dirichlet


def labels_of(classes: int, size: int) -> Labels:
    return np.random.default_rng(0).integers(0, classes, size)


def partition_by(rule: str, n: int, alpha: float, alpha2: float, labels: Labels, seed: int) -> list[Indices]:
    partition, rng, samples = PARTITIONS.get(rule), np.random.default_rng(seed), np.arange(len(labels))
    alphas = {"alpha": alpha, "alpha2": alpha2}
    known = {key: value for key, value in alphas.items() if key in partition.Settings.model_fields}
    settings = partition.Settings.model_validate({"partition": rule, **known})
    return partition.draw(settings, n, samples, labels, rng)


@given(
    rule=st.sampled_from(["iid", "dirichlet", "hybrid"]),
    n=st.integers(2, 60),
    alpha=st.floats(1e-3, 1e4),
    alpha2=st.floats(1e-3, 1e4),
    classes=st.integers(1, 30),
    size=st.integers(1, 800),
    seed=st.integers(0, 2**32),
)
def test_every_sample_goes_to_exactly_one_client(
    rule: str, n: int, alpha: float, alpha2: float, classes: int, size: int, seed: int
) -> None:
    parts = partition_by(rule, n, alpha, alpha2, labels_of(classes, size), seed)
    assert len(parts) == n
    assert sorted(np.concatenate(parts)) == list(range(size))


@given(alpha=st.floats(1e-2, 1e3), alpha2=st.floats(1e-2, 1e3), classes=st.integers(2, 20), seed=st.integers(0, 99))
def test_three_nodes_have_one_size_and_use_no_sample_twice(
    alpha: float, alpha2: float, classes: int, seed: int
) -> None:
    labels = labels_of(classes, 600)
    parts = partition_by("three_node", 3, alpha, alpha2, labels, seed)
    assert len({len(part) for part in parts}) == 1
    together = np.concatenate(parts)
    assert len(set(together)) == len(together)


def test_the_three_node_cut_keeps_each_clients_class_proportions(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = labels_of(5, 20_000)
    cut = partition_by("three_node", 3, 1.0, 0.5, labels, seed=3)
    monkeypatch.setattr(three_node, "apportion", lambda counts, total: counts)  # the same draw, not cut
    whole = partition_by("three_node", 3, 1.0, 0.5, labels, seed=3)
    assert min(len(part) for part in whole) == len(cut[0])
    assert max(len(part) for part in whole) > 1.2 * len(cut[0])
    for before, after in zip(whole, cut, strict=True):
        shares = [np.bincount(labels[part], minlength=5) / len(part) for part in (before, after)]
        assert np.abs(shares[0] - shares[1]).max() < 1 / len(after) + 1e-9


def test_small_alpha_concentrates_and_large_alpha_evens_out() -> None:
    labels = np.repeat(np.arange(10), 500)
    spread = []
    for alpha in (0.05, 1.0, 1000.0):
        parts = dirichlet(10, alpha, np.arange(5000), labels, np.random.default_rng(0))
        counts = np.stack([np.bincount(labels[part], minlength=10) for part in parts])
        spread.append(counts.std())
    assert spread[0] > 2 * spread[1] > 4 * spread[2]


def test_dirichlet_counts_follow_the_drawn_proportions() -> None:
    labels = np.zeros(10_000, np.int64)
    rng, again = np.random.default_rng(5), np.random.default_rng(5)
    parts = dirichlet(8, 0.7, np.arange(10_000), labels, rng)
    again.permutation(10_000)
    proportions = again.dirichlet(np.full(8, 0.7))
    assert np.abs(np.array([len(part) for part in parts]) - 10_000 * proportions).max() <= 1


def test_the_first_half_of_a_hybrid_is_the_balanced_one() -> None:
    labels = np.repeat(np.arange(10), 1000)
    parts = partition_by("hybrid", 20, 10.0, 0.1, labels, seed=1)
    shares = np.stack([np.bincount(labels[part], minlength=10) / len(part) for part in parts])
    assert shares[:10].std(1).max() < shares[10:].std(1).min()


class Drawn(Partition[DataSettings]):
    """A partition whose draws are given."""

    def __init__(self, draws: Iterator[list[Indices]]) -> None:
        self.draws = draws

    def draw(
        self, settings: DataSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        return next(self.draws)

    def redraws(self, clients: int) -> int:
        rng, samples = np.random.default_rng(0), np.arange(3)
        return self.split(DataSettings(partition="drawn"), clients, samples, samples, rng)[1]


def test_redraws_are_bounded_and_end_in_an_error() -> None:
    draws = iter([[np.arange(3), np.arange(0)]] * (REDRAWS + 1))
    with pytest.raises(UserError, match="some client without data"):
        Drawn(draws).redraws(2)
    assert len(list(draws)) == 1


def test_redraws_are_counted() -> None:
    assert Drawn(iter([[np.arange(0)], [np.arange(0)], [np.arange(1)]])).redraws(1) == 2


@given(weights=st.lists(st.integers(0, 1000), min_size=1, max_size=40).filter(any), total=st.integers(0, 500))
def test_apportioned_counts_sum_to_the_total_and_stay_within_one_of_their_share(weights: list[int], total: int) -> None:
    counts = apportion(weights, total)
    assert sum(counts) == total
    shares = np.array(weights) * total / sum(weights)
    assert np.abs(counts - shares).max() <= 1 + 1e-6


def test_long_tail_counts_are_the_formula_without_rounding_noise() -> None:
    assert longtail_counts(100, 10, 10)[0] == 100
    assert longtail_counts(100, 10, 10)[9] == 10
    assert longtail_counts(5000, 5, 10) == [5000, 4181, 3496, 2924, 2445, 2044, 1709, 1429, 1195, 1000]
    assert longtail_counts(7, 3, 1) == [7]


@given(sizes=st.lists(st.integers(1, 40), min_size=2, max_size=8), seed=st.integers(0, 999), cut=st.integers(1, 60))
def test_prefixes_are_class_balanced_until_a_class_runs_out(sizes: list[int], seed: int, cut: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    order = class_order(labels, np.random.default_rng(seed), balanced=True)
    assert sorted(order) == list(range(len(labels)))
    counts = np.bincount(labels[order[:cut]], minlength=len(sizes))
    open_classes = [c for c, size in enumerate(sizes) if counts[c] < size]
    assert all(counts.max() - counts[c] <= 1 for c in open_classes)


def test_proportional_prefixes_keep_the_mix() -> None:
    labels = np.repeat([0, 1], [900, 100])
    order = class_order(labels, np.random.default_rng(0), balanced=False)
    assert np.bincount(labels[order[:100]]).tolist() == [90, 10]


@given(
    rule=st.sampled_from([{"sizes": "dirichlet", "alpha": 0.1}, {"sizes": "power", "power": 2.0}]),
    n=st.integers(1, 40),
    size=st.integers(40, 400),
    seed=st.integers(0, 2**32),
)
def test_quantity_skew_uses_every_sample_once_and_leaves_no_client_without(
    rule: dict[str, float], n: int, size: int, seed: int
) -> None:
    partition, samples = PARTITIONS.get("quantity"), np.arange(size)
    settings = partition.Settings.model_validate({"partition": "quantity", **rule})
    parts = partition.draw(settings, n, samples, samples % 5, np.random.default_rng(seed))
    assert len(parts) == n and min(map(len, parts)) >= 1
    assert sorted(np.concatenate(parts)) == list(range(size))


def test_sizes_follow_the_power_law_and_labels_do_not_differ() -> None:
    partition, labels = PARTITIONS.get("quantity"), np.arange(100_000) % 10
    settings = partition.Settings.model_validate({"partition": "quantity", "sizes": "power", "power": 1.5})
    parts = partition.draw(settings, 10, np.arange(100_000), labels, np.random.default_rng(0))
    sizes = sorted(map(len, parts), reverse=True)
    expected = np.arange(1, 11) ** -1.5
    assert sizes == pytest.approx(100_000 * expected / expected.sum(), abs=6)
    shares = np.stack([np.bincount(labels[part], minlength=10) / len(part) for part in parts])
    assert np.abs(shares - 0.1).max() < 0.03


def test_power_zero_gives_equal_sizes() -> None:
    partition = PARTITIONS.get("quantity")
    settings = partition.Settings.model_validate({"partition": "quantity", "sizes": "power", "power": 0})
    parts = partition.draw(settings, 7, np.arange(70), np.zeros(70, np.int64), np.random.default_rng(0))
    assert [len(part) for part in parts] == [10] * 7


@given(
    n=st.integers(1, 40),
    classes=st.integers(1, 20),
    each=st.integers(1, 20),
    per_class=st.integers(40, 60),
    seed=st.integers(0, 2**32),
)
def test_every_client_has_its_number_of_classes_and_every_sample_one_client(
    n: int, classes: int, each: int, per_class: int, seed: int
) -> None:
    partition, labels = PARTITIONS.get("shards"), np.repeat(np.arange(classes), per_class)
    settings = partition.Settings.model_validate({"partition": "shards", "classes": each})
    rng, samples = np.random.default_rng(seed), np.arange(len(labels))
    if each > classes or n * each < classes:
        with pytest.raises(UserError, match=r"clients share .* classes; must be between"):
            partition.draw(settings, n, samples, labels, rng)
        return
    parts = partition.draw(settings, n, samples, labels, rng)
    assert sorted(np.concatenate(parts)) == list(range(len(labels)))
    assert [len(np.unique(labels[part])) for part in parts] == [each] * n
    holders = [sum(label in labels[part] for part in parts) for label in range(classes)]
    assert max(holders) - min(holders) <= 1


def test_the_parameter_of_the_other_size_distribution_is_no_part_of_the_hash() -> None:
    def quantity(**settings: float | str) -> str:
        return TrialConfig(data={"partition": "quantity", **settings}).hash

    assert quantity(power=3.0) == quantity() != quantity(alpha=0.5)
    assert quantity(sizes="power", alpha=0.5) == quantity(sizes="power") != quantity(sizes="power", power=3.0)
