"""Run some published trials again and compare: python -m fedbench.verify published --trials 2 --seed 1."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from fedbench.base.errors import UserError
from fedbench.base.plugins import import_modules
from fedbench.cli.command import Parser, run
from fedbench.cli.options import add_data_option, add_import_option, folder


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(
        prog="python -m fedbench.verify", description="Pick stored trials at random, run them again, and compare."
    )
    add = options.add_argument
    add("results", type=folder, nargs="?", default=Path("published"), metavar="DIR", help="the results (published)")
    add("--trials", type=int, default=1, metavar="N", help="how many to pick (1)")
    add("--seed", type=int, default=0, metavar="N", help="which ones: another number picks others (0)")
    add("--dry-run", action="store_true", help="say which would be run and how long they took, and stop")
    add("--out", type=folder, metavar="DIR", help="keep the runs there, and go on with them (a temporary folder)")
    add_data_option(options)
    add_import_option(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code: 1 if any trial does not agree."""
    options = parser().parse_args(arguments)
    if options.trials < 1:
        raise UserError(f"--trials {options.trials}: must be at least 1")
    if not (options.results / "trials").is_dir():
        raise UserError(f"{options.results}: holds no results; name a folder with trials, such as published")
    if options.out and options.out.resolve() == options.results.resolve():
        raise UserError(f"--out {options.out}: holds the results to be verified; name another folder")
    import_modules(options.modules)
    from fedbench.cli.published import verify

    return verify(options)


if __name__ == "__main__":
    run(main)
