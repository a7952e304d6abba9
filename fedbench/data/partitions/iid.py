"""All clients alike."""

from typing import Literal

import numpy as np

from fedbench.data.classes import Indices, Labels
from fedbench.data.partitions.base import DataSettings, Partition, register_partition


class IidSettings(DataSettings):
    """No settings of its own."""

    partition: Literal["iid"] = "iid"


@register_partition()
class Iid(Partition[IidSettings]):
    """Samples are shuffled and dealt out in shards of (nearly) one size."""

    Settings = IidSettings

    def draw(
        self, settings: IidSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """Equal parts of a shuffle."""
        return np.array_split(rng.permutation(samples), clients)
