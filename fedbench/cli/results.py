"""The commands that work on stored results: report, publish, verify and clean. Quick to import."""

import argparse
import shutil
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path

from fedbench.base.errors import UserError
from fedbench.base.files import RESULTS
from fedbench.base.plugins import import_modules
from fedbench.base.text import say
from fedbench.cli.command import DONE, FAILED, Command
from fedbench.cli.options import (
    add_data_option,
    add_import_option,
    add_pick_options,
    add_scale_option,
    add_study_options,
    folder,
    selection_of,
    text,
)
from fedbench.jobs.job import EVERYTHING
from fedbench.jobs.options import check_verification
from fedbench.specs.library import built_in, path_of

RETIRED = ".old-"  # before the name of an entry that --fresh has retired
DISPOSABLE = ("ray/*", "checkpoints/*", "leases/*", "damaged/*", "trials/.new-*", "models/.new-*", f"trials/{RETIRED}*")
ACTIVE_SECONDS = 600.0  # what has changed since may belong to a run that goes on


def add_report_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `report`."""
    add = options.add_argument
    add("name", nargs="?", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file")
    add("--check", action="store_true", help="hold cells and claims against the paper's")
    add(
        "--compare",
        type=text("a results folder"),
        nargs="+",
        default=[],
        metavar="DIR",
        help="hold trials against those of another results folder: published; of two folders, hold all cells of the "
        "first against the second's, and exit with 1 if any differs: --compare A B NAME",
    )
    add(
        "--tolerance",
        type=float,
        metavar="N",
        help="with --compare A B: how far cells may be apart, in the unit of their table (the rounding of its digits)",
    )
    add("--ranks", nargs="+", metavar="STUDY", help="instead: rank methods over the cells of these studies together")
    add_study_options(options)
    options.set_defaults(out=None)


def run_report(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `report`; return its exit code."""
    folders = _folders(options)
    options.out = options.out or RESULTS
    import_modules(options.modules)
    for name in options.ranks or [options.name]:
        if name != EVERYTHING or options.ranks:
            path_of("studies", name, "study")
    selection = selection_of(options)
    from fedbench.jobs.report import compare_folders, rank_studies, report_stored

    if options.ranks:
        rank_studies(options.ranks, selection)
    elif len(folders) == 2:
        return FAILED if compare_folders(selection, folders, options.tolerance) else DONE
    else:
        report_stored(selection, check=options.check, compare=folders[0] if folders else None)
    return DONE


def _folders(options: argparse.Namespace) -> list[Path]:
    """Return the folders of --compare; set the study's name if it follows them, and check what excludes what."""
    if options.ranks:
        if options.name:
            raise UserError("name a study, or several with --ranks, not both")
        if options.check or options.compare or options.tolerance is not None:
            raise UserError("--check, --compare: go with one study, not with --ranks")
        return []
    known, words = [*built_in("studies"), EVERYTHING], options.compare
    if not options.name and len(words) > 1 and (words[-1] in known or not Path(words[-1]).is_dir()):
        options.name = words.pop()
    if not options.name:
        raise UserError(f"name a study: {', '.join(known)}, or a YAML file")
    if len(words) > 2:
        raise UserError("--compare: takes one results folder, or two, then a study's name")
    for name, given in (("--out", options.out), ("--check", options.check)):
        if len(words) == 2 and given:
            raise UserError(f"{name}: does not go with two folders; they are only read")
    if options.tolerance is not None:
        if len(words) != 2:
            raise UserError("--tolerance: goes with --compare A B")
        if not 0 <= options.tolerance < inf:
            raise UserError(f"--tolerance {options.tolerance}: must be a number at least 0")
    return [Path(word) for word in words]


def add_publish_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `publish`."""
    add = options.add_argument
    add("name", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file")
    add_scale_option(options)
    add_pick_options(options, "publish only these points of an axis; again for another axis")
    add("--to", type=folder, default=Path("published"), metavar="DIR", help="the folder with packs (published)")
    add_import_option(options)
    options.set_defaults(seeds=None, set=[])  # trials are published as the study file has them


def run_publish(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `publish`; return its exit code: 1 if a pack, or all together, are too large."""
    import_modules(options.modules)
    if options.name != EVERYTHING:
        path_of("studies", options.name, "study")
    selection = selection_of(options)
    from fedbench.jobs.published import publish

    return DONE if publish(selection, options.to) else FAILED


def add_verify_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `verify`."""
    add = options.add_argument
    add("results", type=folder, nargs="?", default=Path("published"), metavar="DIR", help="the results (published)")
    add("--trials", type=int, default=1, metavar="N", help="how many to pick (1)")
    add("--seed", type=int, default=0, metavar="N", help="which ones: another number picks others (0)")
    add("--dry-run", action="store_true", help="say which would be run and how long they took, and stop")
    add("--out", type=folder, metavar="DIR", help="keep the runs there, and go on with them (a temporary folder)")
    add_data_option(options)
    add_import_option(options)


def run_verify(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `verify`; return its exit code: 1 if any trial differs."""
    check_verification(options.results, options.trials, options.out)
    import_modules(options.modules)
    from fedbench.jobs.published import verify

    how = {"out": options.out, "data_dir": options.data_dir, "dry_run": options.dry_run}
    verified = verify(options.results, options.trials, options.seed, **how)
    return FAILED if any(each.verdict == "differs" for each in verified) else DONE


def add_clean_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `clean`."""
    options.add_argument("--out", type=folder, default=RESULTS, metavar="DIR", help="the results folder (results)")
    options.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run_clean(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `clean`; return its exit code."""
    if not options.out.is_dir():
        what = "is a file" if options.out.exists() else "is not there"
        raise UserError(f"--out {options.out}: {what}; name a folder with results")
    for path in [path for pattern in DISPOSABLE for path in sorted(options.out.glob(pattern))]:
        retired = path.name.startswith(RETIRED)
        hash_ = path.name.removeprefix(RETIRED)
        lease = options.out / "leases" / hash_  # of a trial that has checkpoints, renewed while it runs
        files = [file.stat() for file in [path, *path.rglob("*"), lease] if file.exists()]
        age = time.time() - max((file.st_mtime for file in files), default=0.0)
        if age < ACTIVE_SECONDS:
            say(f"{path}: kept, since a run may be using it (it changed {age:.0f} s ago)")
            continue
        if retired and not _has_entry(options.out, hash_):
            say(f"{path}: kept, since it is the only result of its trial; the study runs that again, and removes it")
            continue
        say(f"{path}: {sum(file.st_size for file in files) / 2**20:.1f} MiB")
        if not options.dry_run:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return DONE


def _has_entry(out: Path, hash_: str) -> bool:
    """Return whether a trial has a finished entry that is sound."""
    from fedbench.store.store import Store  # takes a second to import, and is rarely needed

    return bool(Store(out).finished([hash_]))


REPORT = Command(
    "show the tables of stored trials again",
    "fedbench report methods --check",
    "Make a study's tables and plots from stored trials.",
    add_report_command,
    run_report,
)
PUBLISH = Command(
    "pack stored trials for others",
    "fedbench publish fixed_gamma --to published",
    "Pack a study's finished trials, a small file each, to publish.",
    add_publish_command,
    run_publish,
)
VERIFY = Command(
    "run published trials again and compare",
    "fedbench verify published --trials 1",
    "Pick stored trials at random, run them again, and compare.",
    add_verify_command,
    run_verify,
)
CLEAN = Command(
    "remove what is not a result from a folder",
    "fedbench clean --dry-run",
    "Remove all but results: " + ", ".join(DISPOSABLE),
    add_clean_command,
    run_clean,
)
