"""What a federation consists of: samples on a device, and which of them goes where."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedbench.base.tensors import on_device
from fedbench.data.classes import Indices, Labels


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
        chosen = on_device(index, self.labels.device)
        images, labels = self.images.index_select(0, chosen), self.labels.index_select(0, chosen)
        return Samples(images, labels, self.scale, self.shift, self.dtype)


@dataclass(frozen=True)
class Split:
    """Which sample goes where: indices into the training set (clients, validation) and the test set (proxy, test).

    The proxy's are into the training set where that is its source.

    shards: what each client trains on; holdout: what it keeps aside; sizes [n]: |D_i|, both together (data-size
    weights come from these); class_counts [n, C]: of the same samples, before any label was
    corrupted; labels [N]: the training labels, those of corrupted clients as they see them; corrupted: their ids,
    sorted; swapped: client -> a pair of classes, where that is the corruption;
    groups: named groups of clients, where the partition has any;
    redraws: how often the partition was drawn again because a client had nothing.
    """

    shards: list[Indices]
    holdout: list[Indices]
    sizes: NDArray[np.int64]
    class_counts: NDArray[np.int64]
    labels: Labels
    corrupted: tuple[int, ...]
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
