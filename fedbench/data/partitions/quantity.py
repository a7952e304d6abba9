"""Clients that differ in how much data they have, and in nothing else."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedbench.base.fields import NonNegative
from fedbench.data.classes import Indices, Labels, apportion
from fedbench.data.partitions.base import Alpha, DataSettings, Partition, register_partition


class QuantitySettings(DataSettings):
    """The distribution of the clients' sizes."""

    partition: Literal["quantity"] = "quantity"
    sizes: Literal["dirichlet", "power"] = "dirichlet"
    """how the sizes are distributed: drawn from Dir(alpha), or falling by a power law"""
    alpha: Alpha = Field(default=1.0, title="alpha of the client sizes")
    """Dirichlet concentration of the sizes: the smaller, the more they differ; not used by a power law"""
    power: NonNegative = Field(default=1.0, title="exponent of the client sizes")
    """exponent of the power law: the k-th largest client has a size in proportion to k^-power; not used by Dirichlet"""

    def unused(self) -> tuple[str, ...]:
        """The parameter of the other distribution."""
        return ("power",) if self.sizes == "dirichlet" else ("alpha",)


@register_partition()
class Quantity(Partition[QuantitySettings]):
    """Samples are shuffled and dealt out in shards of different sizes, by Dir(alpha) or a power law."""

    Settings = QuantitySettings

    def draw(
        self, settings: QuantitySettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """One sample for each client; the rest by the drawn proportions."""
        if settings.sizes == "dirichlet":
            weights = rng.dirichlet(np.full(clients, settings.alpha))
        else:
            weights = rng.permutation(np.arange(1, clients + 1, dtype=np.float64) ** -settings.power)
        sizes = np.array(apportion(weights.tolist(), max(len(samples) - clients, 0))) + 1
        return np.split(rng.permutation(samples), np.cumsum(sizes)[:-1])
