"""Tables and plots of a study again, from the store alone: python -m fedbench.report fixed_gamma."""

import argparse
from collections.abc import Sequence

from fedbench.base.plugins import import_modules
from fedbench.specs.library import path_of
from fedbench.terminal.command import DONE, Parser, run
from fedbench.terminal.options import add_study_options, folder


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(
        prog="python -m fedbench.report", description="Make a study's tables and plots from stored trials."
    )
    options.add_argument("name", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file")
    options.add_argument("--check", action="store_true", help="hold cells and claims against the paper's")
    options.add_argument(
        "--compare", type=folder, metavar="DIR", help="hold trials against those of another results folder: published"
    )
    add_study_options(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    import_modules(options.modules)
    if options.name != "all":
        path_of("studies", options.name, "study")
    from fedbench.terminal.studies import report_again

    report_again(options)
    return DONE


if __name__ == "__main__":
    run(main)
