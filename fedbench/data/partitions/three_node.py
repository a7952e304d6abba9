"""The paper's toy example: three clients of the same size, of which one has a different distribution."""

from typing import Literal

import numpy as np

from fedbench.data.classes import Indices, Labels, apportion, by_class, cut
from fedbench.data.partitions.base import Alpha, DataSettings, Partition, register_partition

CLIENTS = 3


class ThreeNodeSettings(DataSettings):
    """Settings of the three-node partition, with one of the paper's toy settings as defaults."""

    partition: Literal["three_node"] = "three_node"
    alpha: Alpha = 100.0
    """Dirichlet concentration of client 0's share of each class"""
    alpha2: Alpha = 0.1
    """Dirichlet concentration of the split of the rest between clients 1 and 2"""


@register_partition()
class ThreeNode(Partition[ThreeNodeSettings]):
    """Client 0 gets the first part of Dir_3(alpha), Dir_2(alpha2) splits the rest; all are cut to the same size."""

    Settings = ThreeNodeSettings
    defaults = {"clients.count": CLIENTS}

    def check(self, clients: int) -> str | None:
        """There must be three clients."""
        return None if clients == CLIENTS else f"must be {CLIENTS}"

    def draw(
        self, settings: ThreeNodeSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """Draw class by class, then cut every client to the size of the smallest, keeping its class proportions."""
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
