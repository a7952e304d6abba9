"""Two classes swapped: the paper's corrupted clients."""

import numpy as np

from fedbench.corruptions.base import Corruption, register_corruption
from fedbench.data.classes import Labels


@register_corruption()
class Swap(Corruption):
    """A pair of classes (a, b), drawn for each client, is swapped; the client holds at least one of the two."""

    name = "swap"
    purpose = "swap"  # as it was before there were others

    def pair(self, labels: Labels, classes: int, rng: np.random.Generator) -> tuple[int, int]:
        """The first is a class that the client holds, so that each corrupted client is."""
        first = int(rng.choice(np.unique(labels)))
        return first, int(rng.choice(np.delete(np.arange(classes), first)))

    def labels(self, labels: Labels, classes: int, rng: np.random.Generator) -> Labels:
        """A to b, b to a."""
        a, b = self.pair(labels, classes, rng)
        return np.where(labels == a, b, np.where(labels == b, a, labels))
