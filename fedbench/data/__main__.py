"""Fetch and verify data sets: python -m fedbench.data get|check NAME."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedbench.data.base import DATASETS, Verifiable
from fedbench.simulation.federation import load_arrays
from fedbench.terminal.command import DONE, Parser, run


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = Parser(prog="python -m fedbench.data", description="Fetch and verify data sets.")
    options.add_argument(
        "action", choices=["get", "check"], help="get: download if need be, verify; check: verify only"
    )
    options.add_argument("name", help=f"one of {', '.join(DATASETS)}")
    options.add_argument("--data-dir", type=Path, metavar="DIR", help="where to look first, and to download to")
    chosen = options.parse_args(arguments)
    dataset = DATASETS.get(chosen.name)
    where = "from its own loader"
    if isinstance(dataset.load, Verifiable):
        arrays, where = dataset.load.verify(chosen.data_dir, download=chosen.action == "get")
        dataset = replace(dataset, load=lambda _: arrays)
    arrays = load_arrays(dataset, chosen.data_dir)
    size = "x".join(map(str, dataset.shape))
    print(
        f"{dataset.name}: {len(arrays.train_labels)} train and {len(arrays.test_labels)} test images of {size}, "
        f"{dataset.num_classes} classes, as they should be ({where})"
    )
    return DONE


if __name__ == "__main__":
    run(main)
