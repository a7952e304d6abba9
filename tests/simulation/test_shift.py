"""Shifted clients in a federation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench import ConfigError, Simulation, TrialConfig, simulate
from fedbench.data.samples import Federation
from fedbench.shifts import SHIFTS
from fedbench.simulation.federation import build_federation
from fedbench.simulation.shift import in_label_mix, shift_levels
from fedbench.testing import tiny as tiny_owned

Make = Callable[..., TrialConfig]
CPU = torch.device("cpu")


def federation(make: Make, **settings: Any) -> Federation:
    return build_federation(make(**settings), None, CPU)


@given(count=st.integers(2, 30), seed=st.integers(0, 99), data=st.data())
def test_groups_are_of_equal_size_and_go_from_no_shift_to_all_of_it(count: int, seed: int, data: st.DataObject) -> None:
    groups = data.draw(st.integers(2, count))
    clients = {"clients.count": count, "clients.shift": "rotation", "clients.shift_groups": groups}
    levels = shift_levels(TrialConfig(**clients, seed=seed))
    found, sizes = np.unique(levels, return_counts=True)
    assert found == pytest.approx(np.arange(groups) / (groups - 1))
    assert sizes.max() - sizes.min() <= 1 and sizes.sum() == count


def test_each_client_has_its_shift_and_all_else_of_the_split_stays(tiny: Make) -> None:
    plain = federation(tiny, clients__holdout=0.2)
    turned = federation(tiny, clients__holdout=0.2, clients__shift="rotation")
    assert [a.tolist() for a in plain.split.shards] == [b.tolist() for b in turned.split.shards]
    assert plain.split.test.tolist() == turned.split.test.tolist()
    for client, level in enumerate(turned.levels):
        for part in (turned.split.shards[client], turned.split.holdout[client]):
            before = plain.train.images.numpy()[part]
            expected = SHIFTS.get("rotation").apply(before, 90 * level, np.random.default_rng(0))
            assert (turned.train.images.numpy()[part] == expected).all()
    assert torch.equal(plain.train.labels, turned.train.labels)


def test_the_test_set_and_the_proxy_set_have_the_mix_of_all_clients(tiny: Make) -> None:
    settings: dict[str, Any] = {"clients__count": 4, "proxy__size": 40, "method__name": "fedlaw", "model": "mlp"}
    plain, negative = (federation(tiny, **settings, clients__shift=name) for name in ("none", "inversion"))
    for one, other in ((plain.test, negative.test), (plain.proxy, negative.proxy)):
        assert one is not None and other is not None
        flipped = (other.images == 255 - one.images).all(3).all(2).all(1)
        same = (other.images == one.images).all(3).all(2).all(1)
        assert bool((flipped ^ same).all())
        assert 0.3 < float(flipped.float().mean()) < 0.7


def test_a_clients_own_test_images_have_its_label_mix_and_its_shift(tiny: Make) -> None:
    plain, negative = (federation(tiny, data__alpha=0.3, clients__shift=name) for name in ("none", "inversion"))
    for client, level in enumerate(negative.levels):
        own = negative.client_test(client)
        assert own is not None
        bright = float(own.images.float().mean()) > 128
        assert bright == (level >= 0.5), "digits are white on black"
        mix = np.bincount(own.labels.numpy(), minlength=10) / len(own)
        counts = negative.split.class_counts[client]
        assert np.abs(mix - counts / counts.sum()).max() < 1 / len(own) * 10
    assert plain.client_test(0) is None


@given(counts=st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any), seed=st.integers(0, 9))
def test_a_label_mix_is_as_large_as_the_test_set_allows(counts: list[int], seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat([0, 1, 2], [30, 40, 50]))
    chosen = labels[in_label_mix(labels, np.array(counts))]
    shares, found = np.array(counts) / sum(counts), np.bincount(chosen, minlength=3)
    assert np.abs(found - shares * len(chosen)).max() <= 1.5
    assert (found == [30, 40, 50]).any()


def test_owners_are_tested_under_the_shift_of_their_client() -> None:
    natural = {"data.partition": "natural", "clients.participation": 1.0}
    plain, negative = (
        build_federation(tiny_owned({**natural, "clients.shift": name}), None, CPU) for name in ("none", "inversion")
    )
    for client, level in enumerate(negative.levels):
        one, other = plain.client_test(client), negative.client_test(client)
        assert one is not None and other is not None
        assert torch.equal(other.images, 255 - one.images if level >= 0.5 else one.images)


def records(make: Make, **settings: Any) -> list[dict[str, Any]]:
    kept = ("test_accuracy", "test_loss", "train_loss")
    return [{name: getattr(record, name) for name in kept} for record in simulate(make(**settings))]


def test_a_shift_of_no_strength_gives_the_same_bytes_as_none(tiny: Make) -> None:
    for name in ("rotation", "noise", "blur"):
        assert records(tiny, clients__shift=name, clients__shift_scale=0.0) == records(tiny)


def test_methods_of_a_seed_meet_the_same_images(tiny: Make) -> None:
    one, other = (federation(tiny, clients__shift="noise", method__name=name) for name in ("fedavg", "fedprox"))
    assert torch.equal(one.train.images, other.train.images) and torch.equal(one.test.images, other.test.images)
    assert one.levels == other.levels != federation(tiny, clients__shift="noise", seed=9).levels


def test_shifts_run_on_colour_images_too(tiny: Make) -> None:
    colour = {"clients.shift": "colour", "data.name": "cifar10", "model": "mlp"}
    assert TrialConfig(**colour).hash != TrialConfig(**{**colour, "clients.shift": "none"}).hash


def test_only_what_counts_is_part_of_the_hash(tiny: Make) -> None:
    usual = tiny(clients__shift="rotation")
    assert usual.hash == tiny(clients__shift="rotation", clients__shift_scale=90.0).hash != tiny().hash
    assert usual.hash == tiny(clients__shift="rotation", clients__shift_groups=usual.clients.count).hash
    others: list[dict[str, Any]] = [
        {"shift": "blur"},
        {"shift": "rotation", "shift_groups": 2},
        {"shift": "rotation", "shift_scale": 45.0},
    ]
    assert (
        len({tiny(**{f"clients__{key}": v for key, v in other.items()}).hash for other in others} | {usual.hash}) == 4
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shift": "rotatoin"}, "did you mean 'rotation'"),
        ({"shift_groups": 3}, r"clients.shift_groups = 3: clients.shift is none; must be null"),
        ({"shift_scale": 3.0}, r"clients.shift_scale = 3.0: clients.shift is none; must be null"),
        ({"shift": "inversion", "shift_scale": 2.0}, "inversion has no scale"),
        ({"shift": "colour"}, "needs images of 3 channels, they have 1"),
        ({"shift": "blur", "shift_groups": 1}, "must be at least 2"),
        ({"shift": "blur", "shift_groups": 99}, "at most clients.count"),
        ({"shift": "blur", "count": 1}, "clients.count = 1: a shift is between groups"),
    ],
)
def test_wrong_settings_are_one_line(tiny: Make, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny(**{f"clients__{key}": value for key, value in settings.items()})


def test_a_shifted_run_measures_its_clients(tiny: Make) -> None:
    run = Simulation(tiny(clients__shift="rotation", clients__shift_groups=2, rounds=1))
    run.step()
    assert all(run.federation.client_test(client) is not None for client in range(run.num_clients))
