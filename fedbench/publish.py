"""Pack a study's finished trials into a folder that others can check: python -m fedbench.publish methods."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from fedbench.base.plugins import import_modules
from fedbench.cli.command import Parser, run
from fedbench.cli.options import add_import_option, add_pick_options, add_scale_option, folder
from fedbench.specs.library import path_of


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(
        prog="python -m fedbench.publish", description="Pack a study's finished trials, a small file each, to publish."
    )
    options.add_argument("name", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file")
    add_scale_option(options)
    add_pick_options(options, "publish only these points of an axis; again for another axis")
    options.add_argument(
        "--to", type=folder, default=Path("published"), metavar="DIR", help="the folder with packs (published)"
    )
    add_import_option(options)
    options.set_defaults(seeds=None, set=[])  # what is published are trials of the study as it stands
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    import_modules(options.modules)
    if options.name != "all":
        path_of("studies", options.name, "study")
    from fedbench.cli.published import publish

    return publish(options)


if __name__ == "__main__":
    run(main)
