"""A search over settings from the command line: python -m fedbench.search fixed_gamma --trials 12."""

import argparse
from collections.abc import Sequence

from fedbench.cli.command import Parser, run
from fedbench.cli.conduct import Command, Job, Rows, conduct
from fedbench.cli.options import add_conduct_options, add_list_options, add_run_options, add_study_options, text
from fedbench.specs.names import SAMPLERS


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.search", description="Search for the best settings of methods.")
    add = options.add_argument
    add("name", nargs="?", metavar="NAME|FILE", help="a built-in search space, or a YAML file of your own")
    add_list_options(options, "search spaces")
    add("--trials", type=int, metavar="N", help="suggestions for each method, in total with those that there are")
    add("--sampler", choices=SAMPLERS, default="tpe", help="how Optuna chooses (tpe)")
    add("--scheduler", choices=("asha", "none"), default="asha", help="asha stops what falls behind (asha)")
    add(
        "--storage",
        type=text("a storage"),
        metavar="URL",
        help="Optuna's storage (an SQLite file under --out)",
    )
    add_study_options(
        options, seeds="other seeds for the table", only="search only these methods: --only method=FedAvg,FedLAW"
    )
    add_conduct_options(
        options,
        fresh="forget the suggestions of this search and start over",
        strict="suggestion or run of the table",
    )
    add_run_options(options, tracked=" of the table's runs")
    return options


def rows(options: argparse.Namespace) -> Rows:
    """What --list shows."""
    from fedbench.cli.listing import space_rows

    return space_rows(options)


def job(options: argparse.Namespace) -> Job:
    """What the options ask for."""
    from fedbench.cli.searches import SearchJob

    return SearchJob(options)


COLUMNS = ("name", "tunes", "methods", "quick", "paper")
COMMAND = Command("fedbench.search", "search_spaces", "search space", (), rows, COLUMNS, job)


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    return conduct(COMMAND, parser().parse_args(arguments), arguments)


if __name__ == "__main__":
    run(main)
