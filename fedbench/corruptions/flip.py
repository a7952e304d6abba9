"""All labels turned round, as label flipping is in most work on robust aggregation."""

import numpy as np

from fedbench.corruptions.base import Corruption, register_corruption
from fedbench.data.classes import Labels


@register_corruption()
class Flip(Corruption):
    """Every label y becomes C - 1 - y, for C classes: the same wrong labels on all corrupted clients."""

    name = "flip"

    def labels(self, labels: Labels, classes: int, rng: np.random.Generator) -> Labels:
        """The classes in the opposite order."""
        return classes - 1 - labels
