"""Tables and plots of a study again, from the store alone: python -m fedbench.report fixed_gamma."""

import argparse
from collections.abc import Sequence
from math import inf
from pathlib import Path

from fedbench.base.errors import UserError
from fedbench.base.files import RESULTS
from fedbench.base.plugins import import_modules
from fedbench.cli.command import DONE, FAILED, Parser, run
from fedbench.cli.options import add_study_options, text
from fedbench.specs.library import built_in, path_of


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(
        prog="python -m fedbench.report", description="Make a study's tables and plots from stored trials."
    )
    options.add_argument(
        "name", nargs="?", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file"
    )
    options.add_argument("--check", action="store_true", help="hold cells and claims against the paper's")
    options.add_argument(
        "--compare",
        type=text("a results folder"),
        nargs="+",
        default=[],
        metavar="DIR",
        help="hold trials against those of another results folder: published; of two folders, hold all cells of the "
        "first against the second's, and exit with 1 if any differs: --compare A B NAME",
    )
    options.add_argument(
        "--tolerance",
        type=float,
        metavar="N",
        help="with --compare A B: how far cells may be apart, in the unit of their table (the rounding of its digits)",
    )
    options.add_argument(
        "--ranks", nargs="+", metavar="STUDY", help="instead: rank methods over the cells of these studies together"
    )
    add_study_options(options)
    options.set_defaults(out=None)
    return options


def settle(options: argparse.Namespace) -> None:
    """Tell the folders of --compare from the study's name behind them; what does not go together is an error."""
    known = [*built_in("studies"), "all"]
    if not options.name and len(options.compare) > 1 and not _folder(options.compare[-1], known):
        options.name = options.compare.pop()
    if not options.name:
        raise UserError(f"name a study: {', '.join(known)}, or a YAML file")
    if len(options.compare) > 2:
        raise UserError("--compare: takes one results folder, or two, then a study's name")
    options.compare = [Path(folder) for folder in options.compare]
    two = len(options.compare) == 2
    for name, given in (("--out", options.out), ("--check", options.check)):
        if two and given:
            raise UserError(f"{name}: does not go with two folders; they are only read")
    if options.tolerance is not None and not two:
        raise UserError("--tolerance: goes with --compare A B")
    if options.tolerance is not None and not 0 <= options.tolerance < inf:
        raise UserError(f"--tolerance {options.tolerance}: must be a number at least 0")
    options.out = options.out or RESULTS


def _folder(text: str, studies: Sequence[str]) -> bool:
    """Whether a word is a folder's name, and not a study's."""
    return text not in studies and Path(text).is_dir()


def rank(options: argparse.Namespace) -> int:
    """Rank over the studies that --ranks names; returns the exit code."""
    if options.name:
        raise UserError("name a study, or several with --ranks, not both")
    if options.check or options.compare or options.tolerance is not None:
        raise UserError("--check, --compare: go with one study, not with --ranks")
    import_modules(options.modules)
    for name in options.ranks:
        path_of("studies", name, "study")
    from fedbench.cli.ranks import rank_studies

    options.out = options.out or RESULTS
    rank_studies(options)
    return DONE


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    if options.ranks:
        return rank(options)
    settle(options)
    import_modules(options.modules)
    if options.name != "all":
        path_of("studies", options.name, "study")
    from fedbench.cli.studies import compare_folders, report_again

    if len(options.compare) == 2:
        return FAILED if compare_folders(options) else DONE
    report_again(options)
    return DONE


if __name__ == "__main__":
    run(main)
