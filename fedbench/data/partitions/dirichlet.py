"""Label skew by a Dirichlet distribution: the paper's partition."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedbench.data.classes import Indices, Labels, by_class, cut
from fedbench.data.partitions.base import Alpha, DataSettings, Partition, register_partition


class DirichletSettings(DataSettings):
    """Settings of the Dirichlet partition."""

    partition: Literal["dirichlet"] = "dirichlet"
    alpha: Alpha = Field(default=1.0, title="alpha of the Dirichlet partition")
    """Dirichlet concentration: the smaller, the more different the clients"""


def dirichlet(clients: int, alpha: float, samples: Indices, labels: Labels, rng: np.random.Generator) -> list[Indices]:
    """Split the samples of every class over n clients by proportions drawn from Dir_n(alpha)."""
    shards: list[list[Indices]] = [[] for _ in range(clients)]
    for members in by_class(samples, labels, rng):
        for shard, part in zip(shards, cut(members, rng.dirichlet(np.full(clients, alpha))), strict=True):
            shard.append(part)
    return [np.concatenate([samples[:0], *shard]) for shard in shards]


@register_partition()
class Dirichlet(Partition[DirichletSettings]):
    """Splits every class over the clients by proportions drawn from Dir(alpha)."""

    Settings = DirichletSettings

    def draw(
        self, settings: DirichletSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """Draw the proportions class by class."""
        return dirichlet(clients, settings.alpha, samples, labels, rng)
