"""What data sets and partitions promise."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedbench.config import TrialConfig
from fedbench.data.base import DATASETS, Dataset
from fedbench.data.classes import Indices
from fedbench.data.partitions import PARTITIONS, DataSettings, Partition
from fedbench.simulation.federation import load_arrays
from fedbench.testing.runs import promise, run, said_as_broken_promise
from fedbench.testing.tiny import tiny

SAMPLES, CLASSES, OWNERS = 400, 4, 16


def check_dataset(name: str, data_dir: Path | None = None) -> None:
    """Check that a registered data set keeps the promises of data sets; `data_dir` is where its files are.

    Its arrays are what its description says, the same at every reading, and its defaults make a config that runs.
    """
    dataset = DATASETS.get(name)
    with said_as_broken_promise():
        first, second = (load_arrays(dataset, data_dir) for _ in range(2))
    pairs: Iterable[tuple[Any, Any]] = zip(first, second, strict=True)
    promise(
        all(np.array_equal(one, other) for one, other in pairs),
        f"data set '{name}': two readings gave different arrays; fix the order of files and the seed of any draw",
    )
    missing = sorted(set(range(dataset.num_classes)) - set(first.train_labels.tolist()))
    promise(not missing, f"data set '{name}': no training image has the label {', '.join(map(str, missing))}")
    with said_as_broken_promise():
        config = TrialConfig(**_small(dataset))
    run(config, data_dir=data_dir)


def _small(dataset: Dataset) -> dict[str, Any]:
    """One short round on a part of the data, all else by default."""
    few = 4 * dataset.num_classes
    sizes = {"data.train_size": min(few, dataset.train_size), "data.test_size": min(few, dataset.test_size)}
    small = {"data.name": dataset.name, "rounds": 1, "clients.count": 2, "data.partition": "iid"}
    return {**small, **sizes, "proxy.size": 1}


def check_partition(
    name: str, settings: Mapping[str, Any] | None = None, clients: int | Sequence[int] = (2, 3, 5, 8)
) -> None:
    """Check that a registered partition keeps the promises of partitions.

    `settings` have dotted keys, such as data.alpha.

    clients: a number of clients, or several. For each of them that the partition does not refuse: as many shards as
    clients, of samples that it was given, none of them twice; the same ones for the same generator; nothing written to;
    groups within the clients.
    """
    partition, given = PARTITIONS.get(name), {"data.partition": name, **(settings or {})}
    for count in [clients] if isinstance(clients, int) else clients:
        if partition.check(count) is None:
            with said_as_broken_promise():
                data = tiny({**given, "clients.count": count, "clients.participation": 1.0}).data
            check_shards(name, partition, data, count)


def check_shards(name: str, partition: Partition[Any], settings: DataSettings, clients: int) -> None:
    """One draw, and the same again."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, 2 * SAMPLES)
    samples = np.sort(rng.permutation(2 * SAMPLES)[:SAMPLES])
    before, columns = (samples.copy(), labels.copy()), {"label": labels, "owner": np.arange(2 * SAMPLES) % OWNERS}
    what = f"partition '{name}' over {clients} clients"

    def draw() -> list[Indices]:
        with said_as_broken_promise():
            return partition.split(settings, clients, samples, labels, np.random.default_rng(1), columns)[0]

    shards, again = draw(), draw()
    promise(
        all(isinstance(shard, np.ndarray) and shard.dtype == np.int64 and shard.ndim == 1 for shard in shards),
        f"{what}: a shard must be a one-dimensional numpy array of int64",
    )
    dealt = np.concatenate(shards)
    promise(len(np.unique(dealt)) == len(dealt), f"{what}: deals out a sample twice")
    promise(
        all(map(np.array_equal, shards, again)),
        f"{what}: the same generator gave other shards the second time; draw from `rng` alone",
    )
    untouched = np.array_equal(samples, before[0]) and np.array_equal(labels, before[1])
    promise(untouched, f"{what}: wrote into the samples or labels that it was given")
    groups = partition.groups(clients)
    promise(
        set(groups) <= set(partition.group_names)
        and all(set(group) <= set(range(clients)) for group in groups.values()),
        f"{what}: groups must have the names in group_names, and hold clients 0 ... {clients - 1}",
    )
