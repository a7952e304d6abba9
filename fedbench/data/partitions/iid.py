"""The partition without heterogeneity: all clients have the same distribution of data."""

from typing import Literal

import numpy as np

from fedbench.data.classes import Indices, Labels
from fedbench.data.partitions.base import DataSettings, Partition, register_partition


class IidSettings(DataSettings):
    """Settings of the iid partition, which adds none."""

    partition: Literal["iid"] = "iid"


@register_partition()
class Iid(Partition[IidSettings]):
    """Shuffles the samples and splits them into shards of (nearly) equal size."""

    Settings = IidSettings

    def draw(
        self, settings: IidSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """Split a random permutation into equal parts."""
        return np.array_split(rng.permutation(samples), clients)
