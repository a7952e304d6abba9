"""A whole study from the command line: python -m fedbench.study fixed_gamma."""

import argparse
from collections.abc import Sequence

from fedbench.cli.command import Parser, run
from fedbench.cli.conduct import Command, Job, Rows, conduct
from fedbench.cli.options import add_conduct_options, add_list_options, add_run_options, add_study_options


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.study", description="Run a study and show its tables.")
    options.add_argument(
        "name", nargs="?", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file"
    )
    add_list_options(options, "studies")
    add_study_options(options)
    add_conduct_options(options, fresh="remove what is stored of this study and run it again", strict="trial")
    options.add_argument(
        "--save-model", action="store_true", help="keep the final model of every trial that is run, in OUT/models"
    )
    add_run_options(options)
    return options


def rows(options: argparse.Namespace) -> Rows:
    """What --list shows."""
    from fedbench.cli.listing import study_rows

    return study_rows(options)


def job(options: argparse.Namespace) -> Job:
    """What the options ask for."""
    from fedbench.cli.studies import StudyJob

    return StudyJob(options)


COMMAND = Command(
    "fedbench.study", "studies", "study", ("all",), rows, ("name", "shows", "quick", "desk", "paper"), job
)


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    return conduct(COMMAND, parser().parse_args(arguments), arguments)


if __name__ == "__main__":
    run(main)
