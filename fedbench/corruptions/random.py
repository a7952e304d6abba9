"""Labels that say nothing."""

import numpy as np

from fedbench.corruptions.base import Corruption, register_corruption
from fedbench.data.classes import Labels


@register_corruption()
class Random(Corruption):
    """Every label is drawn anew, uniformly from all C classes: one of C stays right by chance."""

    name = "random"

    def labels(self, labels: Labels, classes: int, rng: np.random.Generator) -> Labels:
        """Drawn once for the whole run."""
        return rng.integers(0, classes, len(labels))
