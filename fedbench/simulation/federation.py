"""Builds the federation of a config: client shards, proxy set, test set and validation set, on a device."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedbench.base.errors import UserError, describe_error
from fedbench.base.rng import generator, numbered
from fedbench.base.tensors import on_device
from fedbench.config import TrialConfig
from fedbench.data.base import Arrays, Dataset, Verifiable
from fedbench.data.classes import Indices, Labels, class_order, longtail_counts
from fedbench.data.partitions import PARTITIONS
from fedbench.data.samples import Federation, Samples, Split
from fedbench.data.supply import supplied
from fedbench.models import FlatModel, initial
from fedbench.models.start import KEY, load_state
from fedbench.simulation.corrupt import corrupt_labels, corrupted_clients, swapped_pairs
from fedbench.simulation.shift import in_label_mix, shifted, shifted_train


def load_arrays(dataset: Dataset, data_dir: Path | None) -> Arrays:
    """Read a data set and check it against its description. Raise UserError if its loader fails."""
    what = f"data set '{dataset.name}'"
    try:
        arrays = supplied(dataset, data_dir)
    except UserError:
        raise
    except Exception as error:  # a plugin's loader may raise anything
        raise UserError(f"{what}: cannot be read ({describe_error(error)})") from error
    given: tuple[Any, ...] = tuple(arrays) if isinstance(arrays, tuple) else ()
    if not 4 <= len(given) <= 6 or not all(isinstance(part, np.ndarray) for part in given[:4]):
        raise UserError(f"{what}: its loader gave {type(arrays).__name__}; expected Arrays of four numpy arrays")
    arrays = Arrays(*given)
    for part, images, labels, size in (
        ("train", arrays.train_images, arrays.train_labels, dataset.train_size),
        ("test", arrays.test_images, arrays.test_labels, dataset.test_size),
    ):
        wanted = (size, *dataset.sample_shape)
        if images.shape != wanted or images.dtype != dataset.dtype:
            found = f"{images.dtype} {images.shape}"
            raise UserError(f"{what}: {part} images are {found}; expected {dataset.dtype} {wanted}")
        if labels.shape != (size,) or labels.dtype != np.int64:
            raise UserError(f"{what}: {part} labels are {labels.dtype} {labels.shape}; expected int64 {(size,)}")
        if labels.min() < 0 or labels.max() >= dataset.num_classes:
            raise UserError(f"{what}: a {part} label lies outside 0 ... {dataset.num_classes - 1}")
    _check_owners(what, dataset, arrays)
    return arrays


def _check_owners(what: str, dataset: Dataset, arrays: Arrays) -> None:
    """Hold the owners of samples to the description of their data set."""
    named = ("owner", arrays.owner, dataset.train_size), ("owner_test", arrays.owner_test, dataset.test_size)
    for column, owners, size in named:
        if owners is not None and not (isinstance(owners, np.ndarray) and owners.dtype == np.int64):
            raise UserError(f"{what}: {column} must be an int64 array")
        if owners is not None and owners.shape != (size,):
            raise UserError(f"{what}: {column} has shape {owners.shape}; expected {(size,)}")
    found = 0 if arrays.owner is None else len(np.unique(arrays.owner))
    if found != dataset.owners:
        raise UserError(f"{what}: its samples have {found} owners; expected {dataset.owners}, as it is described")


def verified(dataset: Dataset, data_dir: Path | None, *, download: bool) -> tuple[Arrays, str]:
    """Read a data set without any cache and check it. Return the arrays and a description of their source."""
    if not isinstance(dataset.load, Verifiable):
        return load_arrays(dataset, data_dir), "from its own loader"
    arrays, where = dataset.load.verify(data_dir, download=download)
    return load_arrays(replace(dataset, load=lambda _: arrays), None), where


def initial_model(config: TrialConfig, device: torch.device) -> FlatModel:
    """The model that a run starts from: by the seed, or from the file that `init.path` names."""
    model = initial(*config.network, config.seed, device, config.numbers, config.init.draw)
    if config.init.content is not None:
        try:
            model.load(*model.from_state_dict(load_state(config.init.path, config.init.content)))
        except UserError as error:
            where = "" if str(error).startswith(KEY) else f"{KEY} = {config.init.path}: "
            raise UserError(f"{where}{error}") from error
    return model


def check_data(configs: Iterable[TrialConfig], data_dir: Path | None) -> None:
    """Find missing data, impossible partitions and initial weights that do not fit before anything is run.

    Leaves the data in the array cache.
    """
    configs = list(configs)
    for config in {(c.network, c.init.content): c for c in configs if c.init.content is not None}.values():
        initial_model(config, torch.device("cpu"))
    different = {(c.data.model_dump_json(), c.clients.count, c.seed): c for c in configs}
    datasets = {(c.data.name, c.data.content): c.dataset for c in different.values()}
    arrays = {key: load_arrays(dataset, data_dir) for key, dataset in datasets.items()}
    for config in different.values():
        split_samples(config, arrays[config.data.name, config.data.content])


def build_federation(config: TrialConfig, data_dir: Path | None, device: torch.device) -> Federation:
    """Read the data, split them as the config says, and put them on the device."""
    dataset, arrays = config.dataset, load_arrays(config.dataset, data_dir)
    split = split_samples(config, arrays)
    norm = (1 / ((255 if dataset.kind == "uint8" else 1) * dataset.std), -dataset.mean / dataset.std)
    vocabulary = dataset.shape[0] if dataset.kind == "tokens" else 0

    def samples(images: NDArray[Any], labels: Labels) -> Samples:
        return Samples(on_device(images, device), on_device(labels, device), *norm, config.numbers.dtype, vocabulary)

    parts = [np.concatenate(own) for own in zip(split.shards, split.holdout, strict=True)]
    train_images, test_images, shift = arrays.train_images, arrays.test_images, shifted(config, arrays, parts)
    if shift:
        train_images = shifted_train(shift, train_images, parts, split.validation)
        test_images = shift.images(test_images, shift.test_clients, "test")
    train = samples(train_images, split.labels)
    test = samples(test_images, arrays.test_labels)
    if config.proxy.source == "train":
        proxy = samples(train_images[split.proxy], arrays.train_labels[split.proxy])  # labels are the true ones
    else:
        proxy = test.subset(split.proxy)
    federation = Federation(
        split=split,
        train=train,
        test=test.subset(split.test),
        proxy=proxy if config.uses_proxy else None,
        validation=train.subset(split.validation) if len(split.validation) else None,
    )
    if shift:

        def test_of(client: int) -> Samples:
            own = split.test[in_label_mix(arrays.test_labels[split.test], split.class_counts[client])]
            return samples(shift.of_client(arrays.test_images[own], client, "own test"), arrays.test_labels[own])

        federation = replace(federation, levels=shift.levels, shifted_test=test_of)
    method = config.method
    if method.training == "centralised":
        return with_pooled_client(federation)
    return with_proxy_client(federation, repeated=method.proxy_repeated) if method.proxy_as_client else federation


def with_pooled_client(federation: Federation) -> Federation:
    """Add a further client, the last one, that has the training data of all clients together."""
    split = federation.split
    pooled = np.sort(np.concatenate(split.shards))
    split = replace(
        split,
        shards=[*split.shards, pooled],
        holdout=[*split.holdout, pooled[:0]],
        sizes=np.append(split.sizes, split.sizes.sum()),
        class_counts=np.vstack([split.class_counts, split.class_counts.sum(0)]),
    )
    return replace(federation, split=split)


def with_proxy_client(federation: Federation, *, repeated: bool) -> Federation:
    """Add the proxy set as a further client, which is the last one.

    If `repeated`, its images are repeated until an epoch has as many as that of an average client, and its data size is
    that of an average client.
    """
    split, train, proxy = federation.split, federation.train, federation.proxy
    assert proxy is not None, "a config of such a method has a proxy set"
    shard = np.arange(len(train), len(train) + len(proxy))
    size = len(proxy)
    if repeated:
        size = max(size, round(split.sizes.mean()))
        own = round(float(np.mean([len(own) for own in split.shards])))
        shard = np.resize(shard, max(len(shard), own))
    counts = np.bincount(proxy.labels.cpu().numpy(), minlength=split.class_counts.shape[1])
    split = replace(
        split,
        shards=[*split.shards, shard],
        holdout=[*split.holdout, shard[:0]],
        sizes=np.append(split.sizes, size),
        class_counts=np.vstack([split.class_counts, counts]),
    )
    images, labels = torch.cat([train.images, proxy.images]), torch.cat([train.labels, proxy.labels])
    return replace(federation, split=split, train=replace(train, images=images, labels=labels))


def split_samples(config: TrialConfig, arrays: Arrays) -> Split:
    """Split the samples over clients and evaluation sets. Every draw depends on the seed and its purpose alone."""
    seed, n, train_labels, test_labels = config.seed, config.clients.count, arrays.train_labels, arrays.test_labels
    samples, validation = _training_samples(config, train_labels)
    partition = PARTITIONS.get(config.data.partition)
    draw = config.data.draw
    rng = generator(seed, numbered("partition", draw))
    parts, redraws = partition.split(config.data, n, samples, train_labels, rng, arrays.columns)
    shards, holdout = [], []
    for client, part in enumerate(parts):
        order = generator(seed, numbered("holdout", draw), client=client).permutation(part)
        aside = min(int(config.clients.holdout * len(part) + 1e-9), len(part) - 1)
        holdout.append(np.sort(order[:aside]))
        shards.append(np.sort(order[aside:]))
    pool, test = _pool_and_test(config, test_labels)
    if config.proxy.source == "train":
        pool = samples[class_order(train_labels[samples], generator(seed, "proxy/train"), balanced=True)]
        proxy = _proxy(config, pool[: config.proxy_pool], train_labels)
    else:
        proxy = _proxy(config, pool, test_labels)
    counts = [np.bincount(train_labels[part], minlength=config.dataset.num_classes) for part in parts]
    return Split(
        shards=shards,
        holdout=holdout,
        sizes=np.array([len(parts[i]) for i in range(n)], np.int64),
        class_counts=np.stack(counts).astype(np.int64),
        labels=corrupt_labels(config, parts, train_labels),
        corrupted=corrupted_clients(config),
        swapped=swapped_pairs(config, parts, train_labels),
        groups=partition.groups(n),
        validation=validation,
        proxy=proxy,
        test=test,
        redraws=redraws,
        client_tests=_client_tests(arrays, parts, test) if partition.by_owner else None,
    )


def _client_tests(arrays: Arrays, parts: list[Indices], test: Indices) -> list[Indices] | None:
    """The positions in `test` of the samples of each client's owners, None where the test set has no owners."""
    if arrays.owner is None or arrays.owner_test is None:
        return None
    owners = arrays.owner_test[test]
    return [np.flatnonzero(np.isin(owners, arrays.owner[part])) for part in parts]


def _training_samples(config: TrialConfig, labels: Labels) -> tuple[Indices, Indices]:
    """The training samples that are split over the clients, and those that are kept out for validation."""
    seed, data = config.seed, config.data
    order = class_order(labels, generator(seed, "train_size"), balanced=False)[: data.train_size]
    order = order[class_order(labels[order], generator(seed, "validation"), balanced=False)]
    aside = config.validation_samples
    validation, samples = np.sort(order[:aside]), order[aside:]
    if data.longtail > 1:
        classes = labels[samples]
        head = int(np.bincount(classes).max())
        wanted = longtail_counts(head, data.longtail, config.dataset.num_classes)
        samples = np.concatenate([samples[classes == label][:count] for label, count in enumerate(wanted)])
    return np.sort(samples), validation


def _pool_and_test(config: TrialConfig, labels: Labels) -> tuple[Indices, Indices]:
    """The test images that are kept out for the proxy set, in the order of drawing, and the other ones."""
    kept = class_order(labels, generator(config.seed, "test_size"), balanced=False)[: config.data.test_size]
    if config.proxy.rule == "authors":
        pool = authors_draw(config.seed, labels, kept, config.proxy.size, config.dataset.num_classes)
        return pool, np.setdiff1d(kept, pool)
    order = kept[class_order(labels[kept], generator(config.seed, "proxy"), balanced=True)]
    return order[: config.proxy_pool], np.sort(order[config.proxy_pool :])


def authors_draw(seed: int, labels: Labels, kept: Indices, size: int, num_classes: int) -> Indices:
    """The proxy images that the paper's code draws for a seed, in its order: the first images of each class.

    The test images are permuted by torch with the seed, and then shuffled by numpy with the same seed. Images that are
    not in `kept` are skipped.
    """
    walk = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).numpy()
    np.random.RandomState(seed).shuffle(walk)
    walk = walk[np.isin(walk, kept)]
    k, chosen = size // num_classes, []
    for label in range(num_classes):
        places = np.flatnonzero(labels[walk] == label)
        if len(places) < k:
            raise UserError(
                f"proxy.rule = authors: needs {k} test images of class {label}, and there are {len(places)}; "
                "use a smaller proxy.size"
            )
        chosen.append(places[:k])
    return walk[np.sort(np.concatenate(chosen))]


def _proxy(config: TrialConfig, pool: Indices, labels: Labels) -> Indices:
    """Draw the proxy set from its pool. A larger proxy set contains the smaller ones."""
    if not config.uses_proxy:
        return pool[:0]
    if draw := config.proxy.draw:
        pool = pool[class_order(labels[pool], generator(config.seed, f"proxy/{draw}"), balanced=True)]
    if config.proxy.longtail == 1:
        return np.sort(pool[: config.proxy.size])
    classes = labels[pool]
    chosen = [pool[classes == label][:count] for label, count in enumerate(config.proxy_counts)]
    return np.sort(np.concatenate(chosen))
