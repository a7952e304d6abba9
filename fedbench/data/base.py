"""What a data set is: arrays, their shape, and the paper's settings for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import ConfigError
from fedbench.base.registry import Registry


class Arrays(NamedTuple):
    """Images as uint8 [N, H, W, C] (so that a batch is channels-last), labels as int64 [N]."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


@runtime_checkable
class Verifiable(Protocol):
    """A loader that can check its source afresh, past any cache."""

    def verify(self, data_dir: Path | None, *, download: bool) -> tuple[Arrays, str]:
        """The arrays and where they came from; a UserError if something is wrong with them."""


@dataclass(frozen=True)
class Dataset:
    """One data set, described before a byte of it is read, so that configs can be checked early.

    `shape` is (C, H, W). Pixels are scaled to [0, 1], then (x - mean) / std. `load` reads the arrays; its argument is
    the folder that the user named, or None. `defaults` maps config keys to the values that a config takes when it
    leaves them out; the paper's (`PAPER_DEFAULTS`) fill in for the rest. A `method.` default goes to methods that have
    such a setting and no default of their own for it.
    """

    name: str
    shape: tuple[int, int, int]
    num_classes: int
    train_size: int
    test_size: int
    load: Callable[[Path | None], Arrays]
    mean: float = 0.0
    std: float = 1.0
    defaults: Mapping[str, object] = field(default_factory=dict)


DATASETS: Registry[Dataset] = Registry("data set", home="fedbench.data.sets")

PAPER_DEFAULTS: Mapping[str, object] = {
    "clients.epochs": 3,
    "clients.batch_size": 128,
    "clients.lr": 0.08,
    "clients.weight_decay": 5e-4,
    "rounds": 200,
    "method.lr": 0.005,
}


def _misdescribed(dataset: Dataset) -> str | None:
    """Which part of a description is not of its type, if one is not."""
    shape, sizes = dataset.shape, (dataset.num_classes, dataset.train_size, dataset.test_size)
    if not isinstance(shape, tuple) or len(shape) != 3:
        return f"shape must be (C, H, W), is {shape!r}"
    if not all(isinstance(size, Integral) for size in (*shape, *sizes)):
        return "sizes, shape and number of classes must be whole numbers"
    if not all(isinstance(number, Real) for number in (dataset.mean, dataset.std)):
        return "mean and std must be numbers"
    if not callable(dataset.load):
        return "load must be a function that takes a folder"
    return None if isinstance(dataset.defaults, Mapping) else "defaults must be values by config key"


def register_dataset(dataset: Dataset, version: str | None = None) -> Dataset:
    """Make a data set known by its name; one from outside the package may give a `version`."""
    if complaint := _misdescribed(dataset):
        raise ConfigError(f"data set '{dataset.name}': {complaint}")
    if not dataset.std > 0 or min(dataset.num_classes, dataset.train_size, dataset.test_size, *dataset.shape) < 1:
        raise ConfigError(f"data set '{dataset.name}': std, sizes, shape and number of classes must be above 0")
    DATASETS.add(dataset.name, dataset, version)
    return dataset
