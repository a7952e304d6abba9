"""Images of other colours."""

import numpy as np

from fedbench.shifts.base import Pixels, Shift, register_shift


def hue_rotation(degrees: float) -> Pixels:
    """Return the matrix [3, 3] that turns colours (R, G, B) about the grey axis; greys stay as they are."""
    angle = np.deg2rad(degrees)
    across = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / np.sqrt(3)
    matrix = np.cos(angle) * np.eye(3) + np.sin(angle) * across + (1 - np.cos(angle)) / 3
    return np.asarray(matrix, np.float32)


@register_shift()
class Colour(Shift):
    """Turns the hue of colour images by up to s degrees; s = 180."""

    name = "colour"
    default_scale = 180.0

    def check(self, shape: tuple[int, int, int]) -> str | None:
        """Return a complaint about grey images, which have no hue."""
        return None if shape[0] == 3 else f"needs images of 3 channels, they have {shape[0]}"

    def change(self, images: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
        """Return images whose hue is rotated by `strength` degrees."""
        return images @ hue_rotation(strength).T
