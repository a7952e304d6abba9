"""The options that several command lines share: which study at which scale, and what to run it on."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fedbench.base.errors import UserError
from fedbench.base.settings import parse_assignments
from fedbench.specs.expand import ScaledStudy, expand, study_files
from fedbench.specs.parts import SCALES

if TYPE_CHECKING:
    from fedbench.tune.runner import RunOptions

EVERYTHING = "all"  # the name for all studies together, but the one that only tries whether things work
SMOKE = "smoke"


def add_study_options(options: argparse.ArgumentParser) -> None:
    """The options that say which study, at which scale, with which changes: shared with the report command."""
    add = options.add_argument
    add(
        "--scale",
        choices=SCALES,
        default="quick",
        help="quick: minutes on a laptop (default); paper: the paper's setting",
    )
    add("--seeds", metavar="N[,N]", help="other seeds than the study's")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a base setting")
    add("--only", action="append", default=[], metavar="KEY=VALUE[,VALUE]", help="run only these points of an axis")
    add(
        "--import", action="append", default=[], metavar="MODULE", dest="modules", help="a module with your own methods"
    )
    add("--out", type=Path, default=Path("results"), metavar="DIR", help="where all results are kept (results)")


def add_list_options(options: argparse.ArgumentParser, what: str) -> None:
    """The options of a command that can list what comes with fedbench."""
    options.add_argument("--list", action="store_true", help=f"list the built-in {what}")
    options.add_argument("--json", action="store_true", help="with --list: as JSON")


def add_conduct_options(options: argparse.ArgumentParser, *, fresh: str, strict: str) -> None:
    """The options that say whether to run at all, what to forget before, and what to make of failures."""
    add = options.add_argument
    add("--dry-run", action="store_true", help="say what would be run and what it would cost, and stop")
    add("--fresh", action="store_true", help=fresh)
    add("--strict", action="store_true", help=f"exit with 1 if any {strict} failed or diverged")


def add_run_options(options: argparse.ArgumentParser) -> None:
    """The options that say where data are and what of the machine or cluster a trial takes."""
    add = options.add_argument
    add("--data-dir", type=Path, metavar="DIR", help="where data sets are (default: $FEDBENCH_DATA, then a cache)")
    add("--address", metavar="HOST:PORT", help="a running Ray cluster, or auto (default: start one here)")
    add("--cpus-per-trial", type=float, default=1.0, metavar="N", help="CPUs, and threads, of each trial (1)")
    add(
        "--gpus-per-trial",
        type=float,
        metavar="N",
        help="share of a GPU for each trial (a quarter, where there are any)",
    )
    add("--max-concurrent", type=int, metavar="N", help="trials at a time (as many as fit)")
    add(
        "--max-failures", type=int, default=3, metavar="N", help="how often a trial whose process died is restarted (3)"
    )
    add("--dashboard", action=argparse.BooleanOptionalAction, default=False, help="start Ray's dashboard")


def chosen_studies(options: argparse.Namespace) -> list[ScaledStudy]:
    """The study that the options name, expanded; all of the built-in ones under the name `all`."""
    only: dict[str, list[str]] = {}
    for text in options.only:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise UserError(f"--only {text}: expected key=value[,value], such as data.alpha=100,1")
        only.setdefault(key, []).append(values)
    seeds = chosen_seeds(options)
    if options.study == EVERYTHING and only:
        raise UserError("--only picks points of one study's axes; name that study instead of 'all'")
    names = [name for name in study_files() if name != SMOKE] if options.study == EVERYTHING else [options.study]
    changes = parse_assignments(options.set)
    return [expand(name, options.scale, changes=changes, only=only, seeds=seeds) for name in names]


def chosen_seeds(options: argparse.Namespace) -> list[int] | None:
    """The seeds that the options name, if they do."""
    try:
        return [int(seed) for seed in options.seeds.split(",")] if options.seeds else None
    except ValueError:
        raise UserError(f"--seeds {options.seeds}: expected whole numbers, such as 8,9,10") from None


def check_resources(options: argparse.Namespace) -> None:
    """Numbers that make no sense, found before Ray starts."""
    for name, value, least in (
        ("--cpus-per-trial", options.cpus_per_trial, 0.01),
        ("--gpus-per-trial", options.gpus_per_trial, 0),
        ("--max-concurrent", options.max_concurrent, 1),
        ("--max-failures", options.max_failures, 0),
    ):
        if value is not None and not value >= least:
            raise UserError(f"{name} {value}: must be at least {least}")


def slots(options: argparse.Namespace) -> int:
    """How many trials this machine's CPUs run at a time."""
    fit = max(1, int((os.cpu_count() or 1) / options.cpus_per_trial))
    return min(fit, options.max_concurrent or fit)


def run_options(options: argparse.Namespace) -> "RunOptions":
    """What the runner needs to know; Ray is imported only here."""
    from fedbench.tune.runner import RunOptions

    return RunOptions(
        out=options.out,
        data_dir=options.data_dir,
        address=options.address,
        cpus_per_trial=options.cpus_per_trial,
        gpus_per_trial=options.gpus_per_trial,
        max_concurrent=options.max_concurrent,
        max_failures=options.max_failures,
        dashboard=options.dashboard,
        modules=tuple(options.modules),
    )
