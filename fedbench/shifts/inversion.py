"""Negatives."""

import numpy as np

from fedbench.shifts.base import Pixels, Shift, register_shift


@register_shift()
class Inversion(Shift):
    """Turns images of clients at level 0.5 or above into their negatives."""

    name = "inversion"

    def change(self, images: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
        """Take pixels from 1: nothing lies in between, where a mix of both would be grey."""
        return 1 - images if strength >= 0.5 else images
