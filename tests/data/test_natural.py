from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench import Simulation, TrialConfig, UserError, simulate
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.partitions import PARTITIONS, DataSettings, Partition
from fedbench.data.samples import Samples
from fedbench.data.sets import mnist5k
from fedbench.simulation.federation import build_federation, load_arrays
from fedbench.testing import tiny
from tests.conftest import forgetting

CPU = torch.device("cpu")


def natural(**settings: Any) -> TrialConfig:
    return tiny({"data.partition": "natural", **{key.replace("__", "."): v for key, v in settings.items()}})


@given(
    owners=st.lists(st.integers(0, 30), min_size=1, max_size=300),
    clients=st.integers(1, 12),
    how=st.sampled_from(["merge", "sample"]),
    seed=st.integers(0, 99),
)
def test_every_owner_goes_to_one_client_with_all_its_samples(
    owners: list[int], clients: int, how: str, seed: int
) -> None:
    owner, partition = np.array(owners), PARTITIONS.get("natural")
    names = set(owners)
    clients = min(clients, len(names))
    settings = partition.Settings.model_validate({"partition": "natural", "owners": how})
    samples, rng = np.arange(len(owner)), np.random.default_rng(seed)
    shards, _ = partition.split(settings, clients, samples, np.zeros(len(owner), np.int64), rng, {"owner": owner})
    held = [set(owner[shard].tolist()) for shard in shards]
    assert sum(map(len, held)) == len(set.union(*held)), "an owner is at two clients"
    for shard, own in zip(shards, held, strict=True):
        assert shard.tolist() == np.flatnonzero(np.isin(owner, list(own))).tolist()
    counts = [len(own) for own in held]
    assert counts == [1] * clients if how == "sample" else max(counts) - min(counts) <= 1
    assert how == "sample" or set.union(*held) == names


def test_the_test_set_is_split_by_owner_once_the_proxy_is_taken_out() -> None:
    config = natural(clients__count=10, clients__participation=1.0)
    federation, arrays = build_federation(config, None, CPU), load_arrays(config.dataset, None)
    split = federation.split
    assert arrays.owner is not None and arrays.owner_test is not None and split.client_tests is not None
    for client in range(10):
        own, mine = federation.client_test(client), split.test[split.client_tests[client]]
        assert own is not None
        assert set(arrays.owner_test[mine]) <= set(arrays.owner[split.shards[client]])
        assert torch.equal(own.images, torch.from_numpy(np.array(arrays.test_images[mine])))
    assert sorted(np.concatenate(split.client_tests).tolist()) == list(range(len(split.test)))


def test_without_owners_a_client_is_tested_on_what_it_holds_out() -> None:
    federation = build_federation(tiny({"clients.holdout": 0.25}), None, CPU)
    own = federation.client_test(3)
    assert own is not None and len(own) == len(federation.split.holdout[3])
    assert build_federation(tiny(), None, CPU).client_test(3) is None


def test_another_draw_of_the_partition_deals_owners_anew_and_nothing_else() -> None:
    first, second = (build_federation(natural(data__draw=draw), None, CPU).split for draw in (0, 1))
    assert any(a.tolist() != b.tolist() for a, b in zip(first.shards, second.shards, strict=True))
    assert first.proxy.tolist() == second.proxy.tolist() and first.test.tolist() == second.test.tolist()


def test_natural_clients_train() -> None:
    assert [record.test_accuracy is not None for record in simulate(natural())] == [True] * 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data.name": "mnist5k", "data.partition": "natural"}, "the samples of mnist5k have no owners"),
        ({"clients.count": 21, "data.name": "tiny_testing"}, "tiny_testing has 20 owners; must be at most that"),
    ],
)
def test_data_without_enough_owners_are_refused_before_they_are_read(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TrialConfig(**{"data.partition": "natural", "model": "mlp", **settings})


def test_a_partition_with_the_old_signature_is_drawn_as_before() -> None:
    class Old(Partition[DataSettings]):
        def draw(self, settings: Any, clients: int, samples: Any, labels: Any, rng: Any) -> list[Any]:
            return np.array_split(samples, clients)

    settings, samples = DataSettings(partition="old"), np.arange(4)
    shards, _ = Old().split(settings, 2, samples, samples, np.random.default_rng(0), {"owner": samples})
    assert [shard.tolist() for shard in shards] == [[0, 1], [2, 3]]


@pytest.fixture
def registered() -> Iterator[None]:
    with forgetting():
        yield


def described(**changes: Any) -> Dataset:
    usual: dict[str, Any] = {"name": "own", "shape": (1, 2, 2), "num_classes": 2, "train_size": 4, "test_size": 2}
    return register_dataset(Dataset(**{**usual, **changes}))


def arrays(dtype: str = "uint8", **changes: Any) -> Arrays:
    train, test = np.zeros((4, 2, 2, 1), dtype), np.zeros((2, 2, 2, 1), dtype)
    return Arrays(train, np.array([0, 1, 0, 1]), test, np.array([0, 1]))._replace(**changes)


@pytest.mark.parametrize(
    ("given", "description", "message"),
    [
        (arrays(owner=np.array([0, 0, 1])), {"owners": 2}, r"owner has shape \(3,\); expected \(4,\)"),
        (arrays(owner=np.array([0.0, 0, 1, 1])), {"owners": 2}, "owner must be an int64 array"),
        (arrays(owner=np.array([0, 0, 1, 1])), {"owners": 3}, "have 2 owners; expected 3"),
        (arrays(), {"owners": 3}, "have 0 owners; expected 3"),
        (arrays("float32"), {}, "train images are float32 .*; expected uint8"),
        (arrays(), {"kind": "float32"}, "train images are uint8 .*; expected float32"),
    ],
)
def test_arrays_that_are_not_as_described_are_one_line(
    registered: None, given: Arrays, description: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        load_arrays(described(load=lambda folder: given, **description), None)


def test_numbers_are_fed_as_they_are_and_the_arrays_stay_untouched() -> None:
    numbers = np.random.default_rng(0).normal(size=(5, 2, 3, 1)).astype(np.float32)
    samples = Samples(torch.from_numpy(numbers), torch.zeros(5, dtype=torch.int64), 0.5, 1.0, torch.float32)
    before = numbers.copy()
    for index in (slice(None), torch.arange(5)):
        assert torch.equal(samples.inputs(index), torch.from_numpy(before).permute(0, 3, 1, 2) * 0.5 + 1)
    assert (numbers == before).all()


def test_tokens_are_fed_one_hot() -> None:
    tokens = torch.tensor([[3, 0], [1, 1]], dtype=torch.int32)
    samples = Samples(tokens, torch.zeros(2, dtype=torch.int64), 1.0, 0.0, torch.float64, vocabulary=4)
    x = samples.inputs(slice(None))
    assert x.shape == (2, 4, 1, 2) and x.dtype == torch.float64
    assert x.argmax(1)[:, 0].tolist() == tokens.tolist() and bool((x.sum(1) == 1).all())


def test_a_model_learns_from_tokens(registered: None) -> None:
    def load(folder: Path | None) -> Arrays:
        labels = np.arange(120) % 2
        tokens = np.random.default_rng(0).integers(0, 4, (120, 5)).astype(np.int32) + 4 * labels[:, None].astype(
            "int32"
        )
        return Arrays(tokens[:80], labels[:80], tokens[80:], labels[80:])

    described(shape=(8, 1, 5), train_size=80, test_size=40, kind="tokens", load=load)
    settings = {"data.name": "own", "model": "mlp", "clients.count": 2, "clients.batch_size": 8, "rounds": 5}
    run = Simulation(TrialConfig(**{"data.partition": "iid", "proxy.size": 4, **settings}))
    assert [run.step() for _ in range(5)][-1].test_accuracy == 1.0


def test_the_digest_of_arrays_is_of_their_content() -> None:
    load = mnist5k.Embedded()
    whole = load(None)
    assert whole.digest() == Arrays(*(None if part is None else np.array(part) for part in whole)).digest()  # type: ignore[arg-type]
    assert whole.digest() != whole._replace(owner=np.zeros(4000, np.int64)).digest()
