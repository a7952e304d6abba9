"""What a federation consists of: samples on a device, and which of them goes where."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedbench.base.tensors import on_device
from fedbench.data.classes import Indices, Labels


@dataclass(frozen=True)
class Samples:
    """Labelled inputs on a device, as they are in `Arrays` until the moment they are fed; labels int64 [N].

    A pixel or number x becomes x * scale + shift in `dtype`; tokens of a `vocabulary` become one-hot vectors.
    """

    images: Tensor
    labels: Tensor
    scale: float
    shift: float
    dtype: torch.dtype
    vocabulary: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, index: Tensor | slice) -> Tensor:
        """Normalised images [B, C, H, W] in channels-last memory; tokens as [B, V, 1, L]."""
        pixels = self.images[index] if isinstance(index, slice) else self.images.index_select(0, index)
        if self.vocabulary:
            size, length = pixels.shape
            one_hot = torch.zeros(size, 1, length, self.vocabulary, dtype=self.dtype, device=pixels.device)
            return one_hot.scatter_(3, pixels.long().view(size, 1, length, 1), 1.0).permute(0, 3, 1, 2)
        x = pixels.permute(0, 3, 1, 2).to(self.dtype, copy=True).mul_(self.scale)
        return x.add_(self.shift) if self.shift else x

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [B, C, H, W] and labels [B] of the samples in `index` [B]."""
        return self.inputs(index), self.labels.index_select(0, index)

    def subset(self, index: Indices) -> "Samples":
        """A copy of some samples."""
        chosen = on_device(index, self.labels.device)
        images, labels = self.images.index_select(0, chosen), self.labels.index_select(0, chosen)
        return replace(self, images=images, labels=labels)


@dataclass(frozen=True)
class Split:
    """Which sample goes where: indices into the training set (clients, validation) and the test set (proxy, test).

    The proxy's are into the training set where that is its source.

    shards: what each client trains on; holdout: what it keeps aside; sizes [n]: |D_i|, both together (data-size
    weights come from these); class_counts [n, C]: of the same samples, before any label was
    corrupted; labels [N]: the training labels, those of corrupted clients as they see them; corrupted: their ids,
    sorted; swapped: client -> a pair of classes, where that is the corruption;
    groups: named groups of clients, where the partition has any;
    client_tests: for each client, which of the `test` samples are its owners', as positions in `test`; None unless the
    partition is by owner and the test samples have owners;
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
    client_tests: list[Indices] | None = None


@dataclass(frozen=True)
class Federation:
    """All data of one run. `train` is indexed by the shards; `proxy` and `validation` are None where not used."""

    split: Split
    train: Samples
    test: Samples
    proxy: Samples | None
    validation: Samples | None

    def client_test(self, client: int) -> Samples | None:
        """The samples that only this client's accuracy is measured on, None where it has none.

        They are the test samples of its owners where the test set is split by owner, else what the client holds out.
        """
        split = self.split
        if split.client_tests is not None:
            own, samples = split.client_tests[client], self.test
        else:
            own, samples = split.holdout[client], self.train
        return samples.subset(own) if len(own) else None
