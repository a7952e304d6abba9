"""The paper's toy example: three clients of one size, one of them different."""

from typing import Literal

import numpy as np

from fedbench.data.classes import Indices, Labels, apportion, by_class, cut
from fedbench.data.partitions.base import Alpha, DataSettings, Partition, register_partition

CLIENTS = 3


class ThreeNodeSettings(DataSettings):
    """One of the paper's toy settings."""

    partition: Literal["three_node"] = "three_node"
    alpha: Alpha = 100.0
    """Dirichlet concentration of what client 0 gets of each class"""
    alpha2: Alpha = 0.1
    """Dirichlet concentration by which clients 1 and 2 share the rest"""


@register_partition()
class ThreeNode(Partition[ThreeNodeSettings]):
    """Client 0 takes the first part of Dir_3(alpha), Dir_2(alpha2) splits the rest; all are cut to one size."""

    Settings = ThreeNodeSettings
    defaults = {"clients.count": CLIENTS}

    def check(self, clients: int) -> str | None:
        """Three, as the name says."""
        return None if clients == CLIENTS else f"must be {CLIENTS}"

    def draw(
        self, settings: ThreeNodeSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """Class by class; every client is then cut to the smallest one's size, in proportion to its classes."""
        shards: list[list[Indices]] = [[], [], []]
        for members in by_class(samples, labels, rng):
            first = rng.dirichlet(np.full(3, settings.alpha))[0]
            second, third = (1 - first) * rng.dirichlet(np.full(2, settings.alpha2))
            for shard, part in zip(shards, cut(members, np.array([first, second, third])), strict=True):
                shard.append(part)
        size = min(sum(map(len, shard)) for shard in shards)
        kept = [apportion([len(part) for part in shard], size) for shard in shards]
        return [
            np.concatenate([part[:count] for part, count in zip(shard, counts, strict=True)])
            for shard, counts in zip(shards, kept, strict=True)
        ]
