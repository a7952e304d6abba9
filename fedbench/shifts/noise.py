"""Images with more and more noise."""

import numpy as np

from fedbench.shifts.base import Pixels, Shift, register_shift


@register_shift()
class Noise(Shift):
    """Adds N(0, s^2) to every pixel, once and for all, where pixels go from 0 to 1; s = 0.5."""

    name = "noise"
    default_scale = 0.5

    def change(self, images: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
        """Draw noise of its own for each pixel."""
        return images + np.float32(strength) * rng.standard_normal(images.shape, np.float32)
