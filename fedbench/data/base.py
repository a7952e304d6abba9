"""The description of a data set: how to load its arrays, their shape, and its default settings."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import ConfigError
from fedbench.base.registry import Registry


class Arrays(NamedTuple):
    """The arrays of a data set: inputs of the data set's `kind`, and labels as int64 [N].

    Inputs are uint8 or float32 [N, H, W, C] (so that a batch is channels-last), or tokens as int32 [N, L]. `owner` and
    `owner_test` (int64 [N]) name the owner of each training and test sample, where the data set has owners.
    """

    train_images: NDArray[Any]
    train_labels: NDArray[np.int64]
    test_images: NDArray[Any]
    test_labels: NDArray[np.int64]
    owner: NDArray[np.int64] | None = None
    owner_test: NDArray[np.int64] | None = None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """What is known of each training sample, by name: `label` and, where there are owners, `owner`."""
        return {"label": self.train_labels} | ({} if self.owner is None else {"owner": self.owner})

    def digest(self) -> str:
        """Sha256 of the content of all arrays."""
        digest = hashlib.sha256()
        for array in self:
            if array is not None:
                digest.update(f"{array.dtype} {array.shape}\n".encode())
                digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


Kind = Literal["uint8", "float32", "tokens"]


@runtime_checkable
class Verifiable(Protocol):
    """A loader that can also read and check the original files, without any cache."""

    def verify(self, data_dir: Path | None, *, download: bool) -> tuple[Arrays, str]:
        """Return the arrays and a description of their source, or raise UserError if the files are invalid."""


@dataclass(frozen=True)
class Dataset:
    """The description of a data set. Configs are checked by it before any data are read.

    `shape` is (C, H, W). `kind` is the type of the inputs: pixels (uint8) are scaled to [0, 1], numbers (float32) are
    not, then both are normalised to (x - mean) / std; sequences of L tokens (int32) of a vocabulary of V are encoded
    one-hot, with the shape (V, 1, L). `owners` is the number of different owners of training samples, 0 if the data set
    has no owners. `load` reads the arrays; its argument is the folder that the user gave, or None. `defaults` maps
    config keys to default values and takes precedence over `PAPER_DEFAULTS`. A default `method.KEY` applies to methods
    that have this setting and no default for it.
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
    kind: Kind = "uint8"
    owners: int = 0

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one input in the arrays: (H, W, C), or (L,) for tokens."""
        channels, height, width = self.shape
        return (width,) if self.kind == "tokens" else (height, width, channels)

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The type of the inputs in the arrays."""
        return np.dtype("int32" if self.kind == "tokens" else self.kind)


DATASETS: Registry[Dataset] = Registry("data set", home="fedbench.data.sets")

PAPER_DEFAULTS: Mapping[str, object] = {
    "clients.epochs": 3,
    "clients.batch_size": 128,
    "clients.lr": 0.08,
    "clients.weight_decay": 5e-4,
    "rounds": 200,
    "method.lr": 0.005,
}


def _wrong_type(dataset: Dataset) -> str | None:
    """A message about the first field of a description that has a wrong type, None if there is none."""
    shape, sizes = dataset.shape, (dataset.num_classes, dataset.train_size, dataset.test_size)
    if not isinstance(shape, tuple) or len(shape) != 3:
        return f"shape must be (C, H, W), is {shape!r}"
    if not all(isinstance(size, Integral) for size in (*shape, *sizes)):
        return "sizes, shape and number of classes must be whole numbers"
    if not all(isinstance(number, Real) for number in (dataset.mean, dataset.std)):
        return "mean and std must be numbers"
    if dataset.kind not in get_args(Kind):
        return f"kind must be one of {', '.join(get_args(Kind))}, is {dataset.kind!r}"
    if not isinstance(dataset.owners, Integral) or dataset.owners < 0:
        return f"owners must be a whole number, is {dataset.owners!r}"
    if not callable(dataset.load):
        return "load must be a function that takes a folder"
    return None if isinstance(dataset.defaults, Mapping) else "defaults must be values by config key"


def register_dataset(dataset: Dataset, version: str | None = None) -> Dataset:
    """Register a data set under its name. `version` is for plugins: it replaces the fingerprint of their source."""
    if problem := _wrong_type(dataset):
        raise ConfigError(f"data set '{dataset.name}': {problem}")
    if not dataset.std > 0 or min(dataset.num_classes, dataset.train_size, dataset.test_size, *dataset.shape) < 1:
        raise ConfigError(f"data set '{dataset.name}': std, sizes, shape and number of classes must be above 0")
    DATASETS.add(dataset.name, dataset, version)
    return dataset
