"""The federation of one config: client shards, proxy, test and validation sets, as tensors on a device."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedbench.base.errors import UserError
from fedbench.base.rng import generator
from fedbench.config.trial import TrialConfig
from fedbench.data.base import Arrays, Dataset
from fedbench.data.partition import (
    Indices,
    class_order,
    dirichlet,
    draw_until_all_have_data,
    hybrid,
    iid,
    longtail_counts,
    three_node,
)

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Labelled images on a device: uint8 [N, H, W, C] until the moment they are fed; labels int64 [N].

    A pixel x becomes x * scale + shift in `dtype`.
    """

    images: Tensor
    labels: Tensor
    scale: float
    shift: float
    dtype: torch.dtype

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, index: Tensor | slice) -> Tensor:
        """Normalised images [B, C, H, W] in channels-last memory."""
        pixels = self.images[index] if isinstance(index, slice) else self.images.index_select(0, index)
        x = pixels.permute(0, 3, 1, 2).to(self.dtype).mul_(self.scale)
        return x.add_(self.shift) if self.shift else x

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [B, C, H, W] and labels [B] of the samples in `index` [B]."""
        return self.inputs(index), self.labels.index_select(0, index)

    def subset(self, index: Indices) -> "Samples":
        """A copy of some samples."""
        chosen = torch.from_numpy(index).to(self.labels.device)
        images, labels = self.images.index_select(0, chosen), self.labels.index_select(0, chosen)
        return Samples(images, labels, self.scale, self.shift, self.dtype)


@dataclass(frozen=True)
class Split:
    """Which sample goes where: indices into the training set (clients, validation) and the test set (proxy, test).

    shards: what each client trains on; holdout: what it keeps aside; sizes [n]: |D_i|, both together (data-size
    weights come from these); class_counts [n, C]: of the same samples, before any label was swapped;
    labels [N]: the training labels with corrupted clients' pairs swapped; swapped: client -> the pair;
    groups: named groups of clients, the two halves of a hybrid partition;
    redraws: how often the partition was drawn again because a client had nothing.
    """

    shards: list[Indices]
    holdout: list[Indices]
    sizes: NDArray[np.int64]
    class_counts: NDArray[np.int64]
    labels: Labels
    swapped: dict[int, tuple[int, int]]
    groups: dict[str, range]
    validation: Indices
    proxy: Indices
    test: Indices
    redraws: int


@dataclass(frozen=True)
class Federation:
    """All data of one run. `train` is indexed by the shards; `proxy` and `validation` are None where not used."""

    split: Split
    train: Samples
    test: Samples
    proxy: Samples | None
    validation: Samples | None


def load_arrays(dataset: Dataset, data_dir: Path | None) -> Arrays:
    """Read a data set and hold it to its description."""
    arrays = dataset.load(data_dir)
    channels, height, width = dataset.shape
    for part, images, labels, size in (
        ("train", arrays.train_images, arrays.train_labels, dataset.train_size),
        ("test", arrays.test_images, arrays.test_labels, dataset.test_size),
    ):
        wanted = (size, height, width, channels)
        if images.shape != wanted or images.dtype != np.uint8 or labels.shape != (size,):
            raise UserError(
                f"data set '{dataset.name}': {part} has images {images.dtype} {images.shape} and {len(labels)} labels; "
                f"expected uint8 {wanted}"
            )
        if labels.min() < 0 or labels.max() >= dataset.num_classes:
            raise UserError(f"data set '{dataset.name}': a {part} label lies outside 0 ... {dataset.num_classes - 1}")
    return arrays


def check_data(configs: Iterable[TrialConfig], data_dir: Path | None) -> None:
    """Find missing data and impossible partitions before anything is run; leaves the data in the array cache."""
    different = {(c.data, c.clients.count, c.seed): c for c in configs}
    arrays = {c.data.name: load_arrays(c.dataset, data_dir) for c in different.values()}
    for config in different.values():
        found = arrays[config.data.name]
        split_samples(config, found.train_labels, found.test_labels)


def build_federation(config: TrialConfig, data_dir: Path | None, device: torch.device) -> Federation:
    """Read the data, split them as the config says, and put them on the device."""
    dataset, arrays = config.dataset, load_arrays(config.dataset, data_dir)
    split = split_samples(config, arrays.train_labels, arrays.test_labels)
    dtype = getattr(torch, config.precision)
    norm = (1 / (255 * dataset.std), -dataset.mean / dataset.std, dtype)

    def samples(images: NDArray[np.uint8], labels: Labels) -> Samples:
        return Samples(torch.from_numpy(images).to(device), torch.from_numpy(labels).to(device), *norm)

    train = samples(arrays.train_images, split.labels)
    test = samples(arrays.test_images, arrays.test_labels)
    federation = Federation(
        split=split,
        train=train,
        test=test.subset(split.test),
        proxy=test.subset(split.proxy) if config.uses_proxy else None,
        validation=train.subset(split.validation) if len(split.validation) else None,
    )
    return with_proxy_client(federation) if config.method.proxy_as_client else federation


def with_proxy_client(federation: Federation) -> Federation:
    """The proxy set as one more client, the last."""
    split, train, proxy = federation.split, federation.train, federation.proxy
    assert proxy is not None, "the config makes sure of a proxy set"
    own = np.arange(len(train), len(train) + len(proxy))
    counts = np.bincount(proxy.labels.cpu().numpy(), minlength=split.class_counts.shape[1])
    split = replace(
        split,
        shards=[*split.shards, own],
        holdout=[*split.holdout, own[:0]],
        sizes=np.append(split.sizes, len(own)),
        class_counts=np.vstack([split.class_counts, counts]),
    )
    images, labels = torch.cat([train.images, proxy.images]), torch.cat([train.labels, proxy.labels])
    return replace(federation, split=split, train=replace(train, images=images, labels=labels))


def split_samples(config: TrialConfig, train_labels: Labels, test_labels: Labels) -> Split:
    """Decide which sample goes where; every draw is keyed by the seed and its purpose alone."""
    seed, n = config.seed, config.clients.count
    samples, validation = _training_samples(config, train_labels)
    parts, redraws = _partition(config, samples, train_labels)
    shards, holdout = [], []
    for client, part in enumerate(parts):
        order = generator(seed, "holdout", client=client).permutation(part)
        aside = min(int(config.clients.holdout * len(part) + 1e-9), len(part) - 1)
        holdout.append(np.sort(order[:aside]))
        shards.append(np.sort(order[aside:]))
    labels, swapped = _corrupt(config, parts, train_labels)
    proxy, test = _proxy_and_test(config, test_labels)
    counts = [np.bincount(train_labels[part], minlength=config.dataset.num_classes) for part in parts]
    return Split(
        shards=shards,
        holdout=holdout,
        sizes=np.array([len(parts[i]) for i in range(n)], np.int64),
        class_counts=np.stack(counts).astype(np.int64),
        labels=labels,
        swapped=swapped,
        groups={"balanced": range(n // 2), "imbalanced": range(n // 2, n)} if config.data.partition == "hybrid" else {},
        validation=validation,
        proxy=proxy,
        test=test,
        redraws=redraws,
    )


def _training_samples(config: TrialConfig, labels: Labels) -> tuple[Indices, Indices]:
    """The samples that clients share, and those kept out for validation."""
    seed, data = config.seed, config.data
    order = class_order(labels, generator(seed, "train_size"), balanced=False)[: data.train_size]
    order = order[class_order(labels[order], generator(seed, "validation"), balanced=False)]
    aside = config.validation_samples
    validation, samples = np.sort(order[:aside]), order[aside:]
    if data.longtail > 1:
        own = labels[samples]
        head = int(np.bincount(own).max())
        wanted = longtail_counts(head, data.longtail, config.dataset.num_classes)
        samples = np.concatenate([samples[own == label][:count] for label, count in enumerate(wanted)])
    return np.sort(samples), validation


def _partition(config: TrialConfig, samples: Indices, labels: Labels) -> tuple[list[Indices], int]:
    """Client parts by the configured rule, and the number of redraws."""
    data, n = config.data, config.clients.count
    rng = generator(config.seed, "partition")

    def draw() -> list[Indices]:
        alpha, alpha2 = data.alpha or 0.0, data.alpha2 or 0.0  # the config makes sure that what is used is there
        match data.partition:
            case "iid":
                return iid(n, samples, rng)
            case "dirichlet":
                return dirichlet(n, alpha, samples, labels, rng)
            case "hybrid":
                return hybrid(n, alpha, alpha2, samples, labels, rng)
            case "three_node":
                return three_node(alpha, alpha2, samples, labels, rng)

    return draw_until_all_have_data(draw, f"data.partition={data.partition} over {n} clients")


def _corrupt(config: TrialConfig, parts: list[Indices], labels: Labels) -> tuple[Labels, dict[int, tuple[int, int]]]:
    """A copy of the labels in which every corrupted client has one pair of classes swapped.

    The first class of the pair is one that the client holds, so that each corrupted client is.
    """
    result, swapped = np.array(labels), {}
    order = generator(config.seed, "corrupted").permutation(config.clients.count)
    for client in sorted(int(c) for c in order[: config.corrupted_clients]):
        rng = generator(config.seed, "swap", client=client)
        first = int(rng.choice(np.unique(labels[parts[client]])))
        second = int(rng.choice(np.delete(np.arange(config.dataset.num_classes), first)))
        own = labels[parts[client]]
        result[parts[client]] = np.where(own == first, second, np.where(own == second, first, own))
        swapped[client] = (first, second)
    return result, swapped


def _proxy_and_test(config: TrialConfig, labels: Labels) -> tuple[Indices, Indices]:
    """The proxy set and, outside its pool, the test set. Proxies of growing size nest."""
    seed = config.seed
    kept = class_order(labels, generator(seed, "test_size"), balanced=False)[: config.data.test_size]
    order = kept[class_order(labels[kept], generator(seed, "proxy"), balanced=True)]
    pool, test = order[: config.proxy_pool], np.sort(order[config.proxy_pool :])
    if not config.uses_proxy:
        return pool[:0], test
    if config.proxy.longtail == 1:
        return np.sort(pool[: config.proxy.size]), test
    own = labels[pool]
    chosen = [pool[own == label][:count] for label, count in enumerate(config.proxy_counts)]
    return np.sort(np.concatenate(chosen)), test
