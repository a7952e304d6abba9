"""Shifted clients: which level each client has, and what its images and its test images look like."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import UserError
from fedbench.base.rng import generator
from fedbench.config import TrialConfig
from fedbench.data.base import Arrays
from fedbench.data.classes import Indices, Labels
from fedbench.data.partitions import PARTITIONS
from fedbench.shifts import NO_SHIFT, SHIFTS

NOBODY = -1  # in place of a client


@dataclass(frozen=True)
class Shifted:
    """The shift of a run.

    levels [n]: the level of each client, from 0 (no shift) to 1; test_clients [N]: the client whose shift each sample
    of the whole test set has.
    """

    config: TrialConfig
    levels: tuple[float, ...]
    test_clients: NDArray[np.int64]

    def images(self, images: NDArray[Any], clients: NDArray[np.int64], purpose: str) -> NDArray[Any]:
        """Return a copy of images [N, H, W, C], each shifted as those of its client [N]."""
        result = np.array(images)
        for client in np.unique(clients[clients != NOBODY]):
            rows = np.flatnonzero(clients == client)
            result[rows] = self.of_client(images[rows], int(client), purpose)
        return result

    def of_client(self, images: NDArray[Any], client: int, purpose: str) -> NDArray[Any]:
        """Return images [N, H, W, C] shifted as those of one client; random shifts are drawn for this purpose."""
        clients, seed = self.config.clients, self.config.seed
        shift = SHIFTS.get(clients.shift)
        scale = shift.default_scale if clients.shift_scale is None else clients.shift_scale
        strength = self.levels[client] * (1.0 if scale is None else scale)
        return shift.apply(images, strength, generator(seed, f"shift/{shift.name}/{purpose}", client=client))


def shift_levels(config: TrialConfig) -> tuple[float, ...]:
    """Return the level of each client: those of group g of G have level g / (G - 1).

    Groups are equal parts of a shuffle of the clients, keyed by the seed alone; each client is a group of its own
    unless `clients.shift_groups` is set.
    """
    n = config.clients.count
    groups = config.clients.shift_groups or n
    place = generator(config.seed, "shift").permutation(n)
    return tuple(float(position * groups // n) / (groups - 1) for position in place)


def shifted(config: TrialConfig, arrays: Arrays, parts: list[Indices]) -> Shifted | None:
    """Return the shift of a run, None if it has none.

    A test sample has the shift of the client that has its owner where the partition is by owner, else that of a client
    drawn at random: the test set (and so the proxy set) has the same mix of shifts as all clients together.
    """
    if config.clients.shift == NO_SHIFT:
        return None
    rng, n = generator(config.seed, "shift/test"), config.clients.count
    test_clients = rng.permutation(len(arrays.test_labels)) % n
    if PARTITIONS.get(config.data.partition).by_owner and arrays.owner is not None and arrays.owner_test is not None:
        for client, part in enumerate(parts):
            test_clients[np.isin(arrays.owner_test, arrays.owner[part])] = client
    return Shifted(config, shift_levels(config), test_clients)


def shifted_train(shift: Shifted, images: NDArray[Any], parts: list[Indices], validation: Indices) -> NDArray[Any]:
    """Return all training images, those of each client shifted, and those of the validation set as the test set."""
    clients = np.full(len(images), NOBODY, np.int64)
    for client, part in enumerate(parts):
        clients[part] = client
    drawn = generator(shift.config.seed, "shift/validation").permutation(len(validation))
    clients[validation] = drawn % len(parts)
    return shift.images(images, clients, "train")


def in_label_mix(labels: Labels, counts: NDArray[np.int64]) -> Indices:
    """Return as many of the samples with these labels as can be had in the mix of `counts` [C], as positions.

    UserError if the labels lack a class that `counts` has.
    """
    shares, there = counts / counts.sum(), np.bincount(labels, minlength=len(counts))
    if missing := np.flatnonzero((counts > 0) & (there == 0)).tolist():
        raise UserError(f"the test set has no sample of class {missing[0]}, which a client has; use a larger test set")
    total = min(there[label] / shares[label] for label in np.flatnonzero(counts))
    chosen = [np.flatnonzero(labels == label)[: round(share * total)] for label, share in enumerate(shares)]
    return np.sort(np.concatenate(chosen))
