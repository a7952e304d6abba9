"""Loads data sets, on a worker from the driver's machine if they are not available locally."""

from collections.abc import Callable
from pathlib import Path

from fedbench.data.base import Arrays, Dataset
from fedbench.data.official import Official, named_folders

Supplier = Callable[[Dataset], Arrays]
_suppliers: list[Supplier] = []


def supply_from(supplier: Supplier) -> None:
    """Register the function that provides data sets which this process does not find. It then downloads nothing."""
    _suppliers[:] = [supplier]


def supplied(dataset: Dataset, data_dir: Path | None) -> Arrays:
    """Load a data set by its own loader or, if that fails, from the registered supplier.

    Raise UserError if the user gave a folder that does not exist, also for loaders that ignore it.
    """
    if not _suppliers:
        named_folders(data_dir)
        return dataset.load(data_dir)
    try:
        named_folders(data_dir)
        if isinstance(dataset.load, Official):
            dataset.load.find(data_dir, download=False)
        return dataset.load(data_dir)
    except Exception:  # a plugin's loader may raise anything
        return _suppliers[0](dataset)
