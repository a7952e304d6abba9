"""The command `python -m fedbench.data get|check NAME`, which downloads and verifies data sets."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from fedbench.base.plugins import import_modules
from fedbench.base.text import say
from fedbench.cli.command import DONE, Parser, run
from fedbench.cli.options import add_data_option, add_import_option


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.data", description="Fetch and verify data sets.")
    options.add_argument(
        "action", choices=["get", "check"], help="get: download if need be, verify; check: verify only"
    )
    options.add_argument("name", metavar="NAME", help="a data set, such as cifar10, or the path of a file of your own")
    add_data_option(options)
    add_import_option(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    import_modules(options.modules)
    from fedbench.data.base import DATASETS
    from fedbench.data.official import check_data_dir
    from fedbench.data.own import FILE, dataset_of
    from fedbench.simulation.federation import verified

    own = options.name not in DATASETS and Path(options.name).exists()
    dataset = dataset_of(FILE, options.name) if own else DATASETS.get(options.name)
    if options.action == "check":
        check_data_dir(options.data_dir)
    arrays, where = verified(dataset, options.data_dir, download=options.action == "get")
    size = "x".join(map(str, dataset.shape))
    samples = {"uint8": "images", "float32": "samples of float32", "tokens": "samples of one-hot tokens"}[dataset.kind]
    owners = f", {dataset.owners} owners" if dataset.owners else ""
    say(
        f"{dataset.name}: {len(arrays.train_labels)} train and {len(arrays.test_labels)} test {samples} of {size}, "
        f"{dataset.num_classes} classes{owners}, as they should be ({where})"
    )
    return DONE


if __name__ == "__main__":
    run(main)
