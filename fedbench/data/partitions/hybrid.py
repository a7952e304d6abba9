"""A partition in which one half of the clients has balanced data and the other half imbalanced data."""

from typing import Literal

import numpy as np

from fedbench.data.classes import Indices, Labels
from fedbench.data.partitions.base import Alpha, DataSettings, Partition, register_partition
from fedbench.data.partitions.dirichlet import dirichlet


class HybridSettings(DataSettings):
    """Settings of the hybrid partition, with the paper's concentrations as defaults."""

    partition: Literal["hybrid"] = "hybrid"
    alpha: Alpha = 10.0
    """Dirichlet concentration of the first half of the clients, the balanced ones"""
    alpha2: Alpha = 0.1
    """Dirichlet concentration of the second half, the imbalanced ones"""


@register_partition()
class Hybrid(Partition[HybridSettings]):
    """Gives n // 2 clients their shards of a Dir(alpha) partition; the others split the rest by Dir(alpha2)."""

    Settings = HybridSettings
    group_names = ("balanced", "imbalanced")

    def check(self, clients: int) -> str | None:
        """There must be at least one client of each kind."""
        return None if clients >= 2 else "must be at least 2"

    def groups(self, clients: int) -> dict[str, range]:
        """The balanced and the imbalanced clients."""
        return {"balanced": range(clients // 2), "imbalanced": range(clients // 2, clients)}

    def draw(
        self, settings: HybridSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """Draw a partition over all clients, then join the shards of the second half and split them again."""
        half = clients // 2
        drawn = dirichlet(clients, settings.alpha, samples, labels, rng)
        left = np.concatenate(drawn[half:])
        return drawn[:half] + dirichlet(clients - half, settings.alpha2, left, labels, rng)
