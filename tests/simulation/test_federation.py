import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench import Simulation, TrialConfig, UserError
from fedbench.data.base import DATASETS, Arrays, Dataset, register_dataset
from fedbench.data.samples import Split
from fedbench.simulation.federation import build_federation, check_data, split_samples
from tests.conftest import forgetting

Make = Callable[..., TrialConfig]
TRAIN = np.repeat(np.arange(10), 400)
TEST = np.repeat(np.arange(10), 100)


def split_of(**settings: Any) -> Split:
    return split_samples(
        TrialConfig(**{key.replace("__", "."): v for key, v in settings.items()}), Arrays(TRAIN, TRAIN, TEST, TEST)
    )


@given(
    alpha=st.floats(0.5, 1000),
    count=st.integers(1, 30),
    holdout=st.floats(0, 0.9),
    validation=st.floats(0, 0.5),
    train_size=st.integers(500, 4000),
    seed=st.integers(0, 10_000),
)
def test_shards_holdout_and_validation_use_exactly_the_training_samples(
    alpha: float, count: int, holdout: float, validation: float, train_size: int, seed: int
) -> None:
    split = split_of(
        data__alpha=alpha,
        clients__count=count,
        clients__holdout=holdout,
        data__validation=validation,
        data__train_size=train_size,
        seed=seed,
    )
    used = np.concatenate([*split.shards, *split.holdout, split.validation])
    assert len(used) == len(set(used)) == train_size
    assert len(split.validation) == round(validation * train_size)
    assert all(len(shard) for shard in split.shards)
    for size, shard, aside in zip(split.sizes, split.shards, split.holdout, strict=True):
        assert size == len(shard) + len(aside)
        assert len(aside) == min(int(holdout * size + 1e-9), size - 1)


def test_data_size_weights_come_from_before_the_holdout() -> None:
    assert (split_of(clients__holdout=0.3).sizes == split_of().sizes).all()


def test_class_counts_are_those_of_the_partition() -> None:
    split = split_of(data__alpha=0.3, clients__holdout=0.2, clients__corrupted=0.5)
    for client, counts in enumerate(split.class_counts):
        own = np.concatenate([split.shards[client], split.holdout[client]])
        assert (np.bincount(TRAIN[own], minlength=10) == counts).all()


def test_a_long_tailed_training_set_keeps_exactly_its_counts() -> None:
    split = split_of(data__longtail=5.0)
    assert split.class_counts.sum(0).tolist() == [400, 334, 279, 233, 195, 163, 136, 114, 95, 80]


def test_the_proxy_is_balanced_nested_and_never_in_the_test_set() -> None:
    user = {"model": "resnet8", "bn": "proxy", "proxy__pool": 500}
    small, large = split_of(**user, proxy__size=100), split_of(**user, proxy__size=300)
    assert np.bincount(TEST[small.proxy]).tolist() == [10] * 10
    odd = np.repeat(np.arange(10), [10, 190, *[100] * 8])
    config = TrialConfig(**{key.replace("__", "."): value for key, value in user.items()}, **{"proxy.size": 50})
    assert np.bincount(odd[split_samples(config, Arrays(TRAIN, TRAIN, odd, odd)).proxy]).tolist() == [5] * 10
    assert set(small.proxy) < set(large.proxy)
    assert not set(large.proxy) & set(large.test)
    assert (small.test == large.test).all()
    assert len(small.test) == 500


def test_another_draw_of_the_proxy_is_balanced_and_changes_nothing_else() -> None:
    user = {"model": "resnet8", "bn": "proxy", "proxy__pool": 500, "proxy__size": 100}
    first, *others = (split_of(**user, proxy__draw=draw) for draw in (0, 1, 2))
    drawn = [first.proxy.tolist(), *(other.proxy.tolist() for other in others)]
    assert len({tuple(images) for images in drawn}) == 3
    for other in others:
        assert np.bincount(TEST[other.proxy]).tolist() == [10] * 10
        assert (other.test == first.test).all()
        assert not set(other.proxy) & set(other.test)
        assert all((one == two).all() for one, two in zip(first.shards, other.shards, strict=True))


def test_a_proxy_of_what_clients_have_is_balanced_in_part_seen_and_changes_nothing_else() -> None:
    user = {"model": "resnet8", "bn": "proxy", "proxy__pool": 500, "proxy__size": 100, "clients__holdout": 0.3}
    usual, seen = split_of(**user), split_of(**user, proxy__source="train")
    assert np.bincount(TRAIN[seen.proxy]).tolist() == [10] * 10
    assert set(seen.proxy) <= set(np.concatenate([*seen.shards, *seen.holdout]))
    assert 50 <= len(set(seen.proxy) & set(np.concatenate(seen.shards))) <= 90, "about 70 % of them are trained on"
    assert (seen.test == usual.test).all()
    assert all((one == two).all() for one, two in zip(usual.shards, seen.shards, strict=True))
    assert set(seen.proxy) < set(split_of(**{**user, "proxy__size": 300}, proxy__source="train").proxy)
    assert set(seen.proxy) != set(split_of(**user, proxy__source="train", proxy__draw=1).proxy)


def test_the_server_knows_the_true_labels_of_what_corrupted_clients_have() -> None:
    settings = {
        "method.name": "fedlaw",
        "proxy.source": "train",
        "clients.corrupted": 1.0,
        "clients.corruption": "flip",
    }
    federation = build_federation(TrialConfig(**settings), None, torch.device("cpu"))
    assert federation.proxy is not None
    proxy, split = federation.proxy, federation.split
    assert np.bincount(proxy.labels.numpy()).tolist() == [len(proxy) // 10] * 10
    assert (split.labels[split.proxy] != proxy.labels.numpy()).any()
    assert torch.equal(proxy.images, federation.train.images[torch.from_numpy(split.proxy)])


def test_methods_without_a_proxy_are_scored_on_the_same_images() -> None:
    user = split_of(model="resnet8", bn="proxy", proxy__size=200)
    other = split_of(proxy__size=200)
    assert (user.test == other.test).all()
    assert len(other.proxy) == 0


def test_a_long_tailed_proxy_keeps_its_head_or_its_total() -> None:
    user = {"model": "resnet8", "bn": "proxy", "proxy__longtail": 10.0, "proxy__size": 100}
    head, keep = split_of(**user), split_of(**user, proxy__longtail_total="keep", proxy__pool=300)
    assert np.bincount(TEST[head.proxy]).tolist() == [10, 7, 5, 4, 3, 2, 2, 1, 1, 1]
    assert len(keep.proxy) == 100
    assert (np.diff(np.bincount(TEST[keep.proxy])) <= 0).all()


def test_corrupted_clients_have_one_pair_swapped_on_a_copy() -> None:
    before = TRAIN.copy()
    split = split_of(clients__corrupted=0.25)
    assert (before == TRAIN).all()
    assert len(split.swapped) == 5
    for client in range(20):
        own = np.concatenate([split.shards[client], split.holdout[client]])
        changed = split.labels[own] != TRAIN[own]
        if client not in split.swapped:
            assert not changed.any()
            continue
        a, b = split.swapped[client]
        assert a != b
        assert changed.any()
        assert (changed == np.isin(TRAIN[own], [a, b])).all()
        assert (split.labels[own][TRAIN[own] == a] == b).all()
        assert (split.labels[own][TRAIN[own] == b] == a).all()


def test_more_corruption_corrupts_the_same_clients_and_more() -> None:
    quarter, half = split_of(clients__corrupted=0.25).swapped, split_of(clients__corrupted=0.5).swapped
    assert quarter.items() < half.items()


def test_a_partition_that_cannot_be_had_is_a_clear_error() -> None:
    with pytest.raises(UserError, match="use fewer clients"):
        split_of(clients__count=400, data__alpha=0.01)


def test_the_cached_arrays_are_untouched_by_a_run_that_swaps_labels(tiny: Make) -> None:
    load = DATASETS.get("mnist5k").load
    before = [array.tobytes() for array in load(None) if array is not None]
    federation = build_federation(tiny(clients__corrupted=1.0), None, torch.device("cpu"))
    federation.train.images[0] = 7
    federation.train.labels[:] = 3
    assert [array.tobytes() for array in load(None) if array is not None] == before


def test_inputs_are_normalised_and_channels_last(tiny: Make) -> None:
    federation = build_federation(tiny(precision="float64"), None, torch.device("cpu"))
    index = torch.tensor([3, 1, 2])
    x, y = federation.train.batch(index)
    pixels = federation.train.images[index].permute(0, 3, 1, 2).to(torch.float64) / 255
    assert x.shape == (3, 1, 28, 28)
    assert torch.allclose(x, pixels, atol=1e-15)
    assert (y == federation.train.labels[index]).all()
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_pixels_are_centred_where_the_data_set_says_so(tiny: Make) -> None:
    base = DATASETS.get("mnist5k")
    register_dataset(replace(base, name="centred", mean=0.5, std=0.25), "1")
    train = build_federation(tiny(data__name="centred", precision="float64"), None, torch.device("cpu")).train
    pixels = train.images[:5].permute(0, 3, 1, 2).to(torch.float64) / 255
    assert torch.allclose(train.inputs(slice(0, 5)), (pixels - 0.5) / 0.25, atol=1e-14)
    assert (DATASETS.get("cifar10").mean, DATASETS.get("cifar100").std) == (0.5, 0.5)


def test_data_are_read_once_for_all_configs_that_use_them() -> None:
    loads: list[str] = []
    base = DATASETS.get("mnist5k")

    def load(data_dir: Path | None) -> Arrays:
        loads.append("own")
        return base.load(data_dir)

    with forgetting():
        shape = (base.shape, base.num_classes, base.train_size, base.test_size)
        register_dataset(Dataset("own", *shape, load, defaults=base.defaults), version="1")
        settings = [{"data.name": "own", "seed": seed, "data.alpha": alpha} for seed in (1, 2) for alpha in (1.0, 10.0)]
        check_data([TrialConfig(**each) for each in settings], None)
    assert loads == ["own"]


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_run_refuses_a_data_folder_that_is_not_there(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    gone = tmp_path / "nowhere"
    if by == "variable":
        monkeypatch.setenv("FEDBENCH_DATA", str(gone))
    with pytest.raises(
        UserError, match=re.escape(f"{gone}: does not exist; name the folder that contains the data sets")
    ):
        Simulation(tiny(), gone if by == "argument" else None)
