"""Two kinds of clients in one federation: balanced ones and imbalanced ones."""

from typing import Literal

import numpy as np

from fedbench.data.classes import Indices, Labels
from fedbench.data.partitions.base import Alpha, DataSettings, Partition, register_partition
from fedbench.data.partitions.dirichlet import dirichlet


class HybridSettings(DataSettings):
    """The paper's concentrations."""

    partition: Literal["hybrid"] = "hybrid"
    alpha: Alpha = 10.0
    """Dirichlet concentration of the first half of the clients, the balanced ones"""
    alpha2: Alpha = 0.1
    """Dirichlet concentration of the second half, the imbalanced ones"""


@register_partition()
class Hybrid(Partition[HybridSettings]):
    """The first n // 2 clients are those of a Dir(alpha) partition; the others share what is left by Dir(alpha2)."""

    Settings = HybridSettings
    group_names = ("balanced", "imbalanced")

    def check(self, clients: int) -> str | None:
        """There must be one of each."""
        return None if clients >= 2 else "must be at least 2"

    def groups(self, clients: int) -> dict[str, range]:
        """Both halves."""
        return {"balanced": range(clients // 2), "imbalanced": range(clients // 2, clients)}

    def draw(
        self, settings: HybridSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """An n-client partition, of which the second half is thrown together and dealt out anew."""
        half = clients // 2
        drawn = dirichlet(clients, settings.alpha, samples, labels, rng)
        left = np.concatenate(drawn[half:])
        return drawn[:half] + dirichlet(clients - half, settings.alpha2, left, labels, rng)
