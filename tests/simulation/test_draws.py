"""Which images form the proxy set, and which other parts of a run a numbered draw changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench import TrialConfig, UserError, simulate
from fedbench.data.base import Arrays
from fedbench.simulation.federation import authors_draw, split_samples
from fedbench.simulation.loop import Simulation
from fedbench.simulation.participants import sample_clients
from tests.conftest import timeless

Make = Callable[..., TrialConfig]
TRAIN = np.repeat(np.arange(10), 400)
TEST = np.tile(np.arange(10), 100)
LARGE_TEST = np.tile(np.arange(10), 1000)  # as many images as Fashion-MNIST has for testing


@pytest.mark.parametrize(
    ("seed", "first"),
    [
        (8, [6368, 124, 4095, 8142, 4157, 9896, 4847, 3498]),
        (9, [3881, 9438, 3956, 7579, 5737, 5425, 1670, 3735]),
        (10, [5485, 2877, 6372, 627, 3485, 2154, 8218, 4376]),
    ],
)
def test_the_authors_draw_begins_with_the_images_of_their_program(seed: int, first: list[int]) -> None:
    # No class can be complete after eight images, so the labels do not matter for the beginning.
    assert authors_draw(seed, LARGE_TEST, np.arange(10_000), 100, 10)[:8].tolist() == first


@given(seed=st.integers(0, 10**9), k=st.integers(1, 60), mixed=st.integers(0, 1000))
def test_the_authors_draw_takes_the_first_of_each_class_along_its_walk(seed: int, k: int, mixed: int) -> None:
    labels = np.random.default_rng(mixed).permutation(TEST)
    kept = np.arange(len(labels))
    walk = authors_draw(seed, labels, kept, len(labels), 10)  # everything: the walk itself
    left, expected = [k] * 10, []
    for image in walk:
        if left[labels[image]]:
            left[labels[image]] -= 1
            expected.append(int(image))
    assert authors_draw(seed, labels, kept, 10 * k, 10).tolist() == expected


def test_the_authors_draw_leaves_global_generators_alone() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    expected = torch.rand(1).item(), np.random.rand()
    torch.manual_seed(1)
    np.random.seed(1)
    authors_draw(8, LARGE_TEST, np.arange(10_000), 100, 10)
    assert (torch.rand(1).item(), np.random.rand()) == expected


def test_the_authors_draw_says_which_class_has_too_few_images() -> None:
    with pytest.raises(UserError, match=r"needs 101 test images of class 0, and there are 100; use a smaller proxy"):
        authors_draw(8, TEST, np.arange(1000), 1010, 10)


def split(**settings: Any) -> Any:
    return split_samples(TrialConfig(**settings), Arrays(TRAIN, TRAIN, TEST, TEST))


@pytest.mark.parametrize("test_size", [None, 600])
def test_every_method_is_scored_without_the_authors_images(test_size: int | None) -> None:
    settings = {"proxy.rule": "authors", "data.test_size": test_size}
    user, other = (split(**settings, **{"method.name": name}) for name in ("fedlaw", "fedavg"))
    assert len(user.proxy) == 100
    assert np.bincount(TEST[user.proxy]).tolist() == [10] * 10
    assert (user.test == other.test).all()
    assert len(user.test) == (test_size or 1000) - 100
    assert not set(user.proxy) & set(user.test)
    assert set(user.proxy) == set(authors_draw(8, TEST, np.union1d(user.proxy, user.test), 100, 10))
    assert all((a == b).all() for a, b in zip(user.shards, split().shards, strict=True)), "clients have the same data"


def test_a_run_is_scored_on_all_images_but_the_authors(tiny: Make) -> None:
    simulation = Simulation(tiny(**{"proxy.rule": "authors"}))
    assert len(simulation.federation.test) == 180
    records = list(simulate(tiny(**{"proxy.rule": "authors"})))
    assert [record.train_loss for record in records] == [record.train_loss for record in simulate(tiny())]
    assert timeless(records) != timeless(list(simulate(tiny()))), "another test set"


def test_the_rule_counts_for_methods_without_a_proxy_set_as_it_decides_what_is_scored() -> None:
    for name in ("fedavg", "fedlaw"):
        own, authors = (TrialConfig(**{"method.name": name, "proxy.rule": rule}) for rule in ("own", "authors"))
        assert own.hash != authors.hash
        assert own.hash == TrialConfig(**{"method.name": name}).hash
    nothing_left_out = {"proxy.size": 0, "proxy.rule": "authors"}
    assert TrialConfig(**nothing_left_out).hash == TrialConfig(**{"proxy.size": 0}).hash


PARTS: dict[str, Callable[[Simulation], list[Any]]] = {
    "data": lambda s: [*s.federation.split.shards, *s.federation.split.holdout],
    "init": lambda s: [s.state.w.numpy()],
    "batches": lambda s: [plan.full.numpy() for t in (1, 2) for plan in s.plans.of(t, list(range(5)))],
    "participation": lambda s: [np.array(sample_clients(s.config, t)) for t in range(1, 9)],
    "proxy": lambda s: [s.federation.split.proxy],
    "test": lambda s: [s.federation.split.test],
    "validation": lambda s: [s.federation.split.validation],
    "corrupted": lambda s: [np.array(s.federation.split.corrupted)],
}
# A plan holds indices of samples, so it follows the partition; its own draw is told by the order alone.
FOLLOWS = {"data": {"data", "batches"}}


def equal(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("group", ["data", "init", "batches", "participation", "proxy"])
@pytest.mark.parametrize("draw", [1, 7])
def test_a_numbered_draw_changes_its_own_part_of_a_run_and_nothing_else(tiny: Make, group: str, draw: int) -> None:
    base = {
        "method.name": "fedlaw",
        "proxy.pool": 60,
        "clients.participation": 0.4,
        "clients.holdout": 0.3,
        "clients.corrupted": 0.4,
        "data.validation": 0.1,
    }
    before, after = (Simulation(tiny(**{**base, f"{group}.draw": number})) for number in (0, draw))
    changed = {name for name, part in PARTS.items() if not equal(part(before), part(after))}
    assert changed == FOLLOWS.get(group, {group})
    assert before.config.hash != after.config.hash
    assert tiny(**base).hash == before.config.hash, "draw 0 is the stream that there was before"


def test_who_takes_part_cannot_be_drawn_where_all_do(tiny: Make) -> None:
    assert tiny(**{"participation.draw": 3}).hash == tiny().hash
    assert timeless(list(simulate(tiny(**{"participation.draw": 3})))) == timeless(list(simulate(tiny())))


@given(one=st.integers(0, 10**9), other=st.integers(0, 10**9))
def test_different_numbers_are_different_draws(one: int, other: int) -> None:
    first, second = (TrialConfig(**{"clients.participation": 0.5, "participation.draw": d}) for d in (one, other))
    cohorts = [[sample_clients(config, t) for t in range(1, 9)] for config in (first, second)]
    assert (cohorts[0] == cohorts[1]) == (one == other) == (first.hash == second.hash)
