"""Bright squares on noise: the square's place is the class."""

from pathlib import Path

import numpy as np

from fedbench.data.base import Arrays, Dataset, register_dataset


def load(data_dir: Path | None) -> Arrays:
    """Images uint8 [N, 8, 8, 1] and labels int64 [N], train and test; the same ones every time."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 1200)
    images = rng.integers(0, 160, (1200, 8, 8, 1), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = 4 * (label // 2), 4 * (label % 2)
        image[row : row + 4, column : column + 4] += 64
    return Arrays(images[:1000], labels[:1000], images[1000:], labels[1000:])


register_dataset(
    Dataset(
        name="my_squares",
        shape=(1, 8, 8),
        num_classes=4,
        train_size=1000,
        test_size=200,
        load=load,
        defaults={"model": "mlp", "clients.batch_size": 32, "rounds": 20},
    )
)
