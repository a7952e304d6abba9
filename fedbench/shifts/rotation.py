"""Images that are turned."""

import numpy as np

from fedbench.shifts.base import Pixels, Shift, register_shift


@register_shift()
class Rotation(Shift):
    """Turns images counterclockwise about their centre by up to s degrees; what comes in is black; s = 90."""

    name = "rotation"
    default_scale = 90.0

    def change(self, images: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
        """Interpolate every pixel from the four pixels around the place that it comes from."""
        _, height, width, _ = images.shape
        rows, columns = np.mgrid[:height, :width].astype(np.float64)
        down, right = rows - (height - 1) / 2, columns - (width - 1) / 2
        angle = np.deg2rad(strength)
        from_row = np.cos(angle) * down + np.sin(angle) * right + (height - 1) / 2
        from_column = np.cos(angle) * right - np.sin(angle) * down + (width - 1) / 2
        top, left = np.floor(from_row).astype(int), np.floor(from_column).astype(int)
        result = np.zeros_like(images)
        for row, across in ((top, 1 - (from_row - top)), (top + 1, from_row - top)):
            for column, along in ((left, 1 - (from_column - left)), (left + 1, from_column - left)):
                inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                weight = (inside * across * along).astype(np.float32)
                result += weight[..., None] * images[:, row.clip(0, height - 1), column.clip(0, width - 1)]
        return result
