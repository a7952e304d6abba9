"""Images out of focus."""

import numpy as np

from fedbench.shifts.base import Pixels, Shift, register_shift


@register_shift()
class Blur(Shift):
    """Blurs images by a Gaussian with a standard deviation of up to s pixels; s = 2."""

    name = "blur"
    default_scale = 2.0

    def change(self, images: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
        """Blur along both axes; the edge pixel goes on beyond the edge."""
        from scipy.ndimage import gaussian_filter  # here, so that configs can be checked without it

        return np.asarray(gaussian_filter(images, sigma=(0, strength, strength, 0), mode="nearest"), np.float32)
