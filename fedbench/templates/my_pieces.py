"""Samples sorted by label and cut into pieces, a few for each client."""

from typing import Literal

import numpy as np

from fedbench.base.fields import Count
from fedbench.data.classes import Indices, Labels
from fedbench.data.partitions import DataSettings, Partition, register_partition


class MyPiecesSettings(DataSettings):
    """How many pieces."""

    partition: Literal["my_pieces"] = "my_pieces"
    pieces: Count = 2
    """pieces that each client gets: the fewer, the more different the clients"""


@register_partition()
class MyPieces(Partition[MyPiecesSettings]):
    """Sorted by label, cut into clients * pieces pieces, dealt out at random."""

    Settings = MyPiecesSettings

    def draw(
        self, settings: MyPiecesSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """One array of sample indices for each client."""
        by_label = samples[np.argsort(labels[samples], kind="stable")]
        pieces = np.array_split(by_label, clients * settings.pieces)
        order = rng.permutation(len(pieces)).reshape(clients, settings.pieces)
        return [np.concatenate([pieces[i] for i in row]) for row in order]
