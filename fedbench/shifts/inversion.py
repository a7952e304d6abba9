"""Images of some clients as negatives."""

import numpy as np

from fedbench.shifts.base import Pixels, Shift, register_shift


@register_shift()
class Inversion(Shift):
    """Turns images of clients at level 0.5 or above into their negatives."""

    name = "inversion"

    def change(self, images: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
        """Return negatives at a strength of 0.5 or above; a mixture of an image and its negative would be grey."""
        return 1 - images if strength >= 0.5 else images
