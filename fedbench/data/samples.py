"""The data of a federation: samples on a device, and their split over clients and evaluation sets."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedbench.base.tensors import on_device
from fedbench.data.classes import Indices, Labels


@dataclass(frozen=True)
class Samples:
    """Labelled inputs on a device, stored as in `Arrays`, with labels as int64 [N].

    When it is used, a pixel or number x is converted to x * scale + shift in `dtype`, and tokens of a `vocabulary` to
    one-hot vectors.
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
        """Normalised images [B, C, H, W] and labels [B] of the samples in `index` [B]."""
        return self.inputs(index), self.labels.index_select(0, index)

    def subset(self, index: Indices) -> "Samples":
        """A copy of the samples in `index`."""
        chosen = on_device(index, self.labels.device)
        images, labels = self.images.index_select(0, chosen), self.labels.index_select(0, chosen)
        return replace(self, images=images, labels=labels)


@dataclass(frozen=True)
class Split:
    """The split of a data set over clients, proxy set, validation set and test set, as indices of samples.

    `shards`, `holdout` and `validation` index the training set, `test` the test set, and `proxy` the set that
    `proxy.source` names.

    shards: samples that each client trains on.
    holdout: samples of each client that it does not train on.
    sizes [n]: number of samples |D_i| of each client, including its holdout; data-size weights are based on it.
    class_counts [n, C]: number of samples of each class of each client, by the labels before corruption.
    labels [N]: labels of the training set after corruption.
    corrupted: sorted ids of the corrupted clients.
    swapped: the two classes that each corrupted client swaps, if the corruption is `swap`.
    groups: named groups of clients, if the partition has any.
    client_tests: for each client, the positions in `test` of the samples of its owners; None unless the partition is by
        owner and the test samples have owners.
    redraws: how often the partition was drawn again because a client had no samples.
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
    """All data of one run. `split.shards` indexes `train`; `proxy` and `validation` are None if they are not used.

    Where the images of clients are shifted, `levels` has the level of each client, from 0 to 1, and
    `shifted_test(client)` gives test images in the client's label mix, under its shift.
    """

    split: Split
    train: Samples
    test: Samples
    proxy: Samples | None
    validation: Samples | None
    levels: tuple[float, ...] = ()
    shifted_test: Callable[[int], Samples] | None = None

    def client_test(self, client: int) -> Samples | None:
        """The samples that only this client's accuracy is measured on, None where it has none.

        They are the test samples of its owners where the test set is split by owner, else what the client holds out. If
        it holds nothing out and images are shifted, they are test images in the client's label mix, under its shift.
        """
        split = self.split
        if split.client_tests is not None:
            own, samples = split.client_tests[client], self.test
        else:
            own, samples = split.holdout[client], self.train
        if not len(own) and self.shifted_test is not None and client < len(self.levels):
            return self.shifted_test(client)
        return samples.subset(own) if len(own) else None
