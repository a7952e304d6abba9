"""A whole study from the command line: python -m fedbench.study fixed_gamma."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from fedbench.cli import DONE, FAILED, INTERRUPTED, Parser, run
from fedbench.config import TrialConfig
from fedbench.data.federation import check_data
from fedbench.errors import UserError
from fedbench.plugins import import_modules
from fedbench.progress import clock
from fedbench.results.estimate import estimate
from fedbench.results.report import Report, make_report, mixed, note, stored_trials
from fedbench.results.store import Store
from fedbench.results.tables import shown
from fedbench.settings import parse_assignments
from fedbench.studyfile import SCALES, ScaledStudy, built_in, expand


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.study", description="Run a study and show its tables.")
    add = options.add_argument
    add("study", nargs="?", metavar="NAME|FILE", help="a built-in study, or a YAML file of your own")
    add("--list", action="store_true", help="list the built-in studies")
    add("--json", action="store_true", help="with --list: as JSON")
    add_study_options(options)
    add("--dry-run", action="store_true", help="say what would be run and what it would cost, and stop")
    add("--fresh", action="store_true", help="remove what is stored of this study and run it again")
    add("--strict", action="store_true", help="exit with 1 if any trial failed or diverged")
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
    return options


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


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    import_modules(options.modules)
    if options.list:
        return list_studies(Store(options.out), options.json)
    if not options.study:
        raise UserError(f"name a study: {', '.join(built_in())}, or a YAML file")
    check_resources(options)
    study, store = chosen_study(options), Store(options.out)
    if not options.dry_run:
        store.prepare()
    stored = {} if options.fresh else stored_trials(study, store)
    finished = {hash_ for hash_, trial in stored.items() if trial.status != "failed"}
    missing = {hash_: config for hash_, config in study.trials.items() if hash_ not in finished}
    warn(store)
    print(f"{study.study.title}{note(study)}: {len(study.trials)} trials, {len(finished)} of them done", flush=True)
    if options.dry_run:
        return show_estimate(list(missing.values()), store, options)
    outcomes: dict[str, str] = {}
    if missing:
        check_data(missing.values(), options.data_dir)
        if options.fresh:
            store.forget(missing)
        outcomes = run_missing(study, missing, options)
    report = make_report(study, store)
    show(study, report)
    left = [hash_ for hash_ in study.trials if hash_ not in report.trials]
    if left:
        command = shlex.join(["python", "-m", "fedbench.study", *(a for a in arguments if a != "--fresh")])
        print(f"{len(left)} trials are left; go on with: {command}", file=sys.stderr)
        return FAILED if any(hash_ in outcomes for hash_ in left) else INTERRUPTED
    return verdict(report, options.strict)


def chosen_study(options: argparse.Namespace) -> ScaledStudy:
    """The study that the options name, expanded."""
    only: dict[str, list[str]] = {}
    for text in options.only:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise UserError(f"--only {text}: expected key=value[,value], such as data.alpha=100,1")
        only[key] = values.split(",")
    try:
        seeds = [int(seed) for seed in options.seeds.split(",")] if options.seeds else None
    except ValueError:
        raise UserError(f"--seeds {options.seeds}: expected whole numbers, such as 8,9,10") from None
    return expand(options.study, options.scale, changes=parse_assignments(options.set), only=only, seeds=seeds)


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


def run_missing(study: ScaledStudy, missing: dict[str, TrialConfig], options: argparse.Namespace) -> dict[str, str]:
    """Run trials on Ray, which is only imported here; returns how each one that ended did."""
    from fedbench.tune.progress import StudyProgress
    from fedbench.tune.runner import RunOptions, run_trials

    run_options = RunOptions(
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
    with suppress(KeyboardInterrupt), StudyProgress(missing, Console()) as progress:
        run_trials(study.name, missing, run_options, progress)
    return progress.outcomes


def warn(store: Store) -> None:
    """Print what was wrong with the store."""
    for complaint in store.complaints:
        print(f"warning: {complaint}", file=sys.stderr)
    store.complaints.clear()


def show_estimate(missing: list[TrialConfig], store: Store, options: argparse.Namespace) -> int:
    """Print what is left to do, and roughly what it costs."""
    cost = estimate(missing, store)
    slots = max(1, int((os.cpu_count() or 1) / options.cpus_per_trial))
    slots = min(slots, options.max_concurrent or slots)
    print(f"{len(missing)} trials to run, {slots} at a time on this machine's CPUs")
    print(f"time: about {clock(cost.seconds / slots)} ({clock(cost.seconds)} on one worker; {cost.source})")
    print(
        f"memory: about {cost.memory / 2**20:.0f} MiB for the largest trial, {slots * cost.memory / 2**20:.0f} in all"
    )
    print(f"disk: about {cost.disk / 2**20:.1f} MiB")
    gpu = [trial.summary.get("peak_gpu_memory_bytes") or 0 for trial in store.all()]
    if any(gpu):
        print(f"GPU memory: at most {max(gpu) / 2**20:.0f} MiB in a stored trial; choose --gpus-per-trial by it")
    return DONE


def show(study: ScaledStudy, report: Report) -> None:
    """Print every table as it would stand in a paper, then the trials that went wrong and the files."""
    console = Console()
    for name, spec in study.study.tables.items():
        frame = shown(study, report.cells, name, ("[bold]", "[/bold]"), "\n±")  # narrow enough for most terminals
        table = Table(show_lines=True, title=f"{study.study.title}{note(study)}: {spec.value}", title_justify="left")
        for column in frame.columns:
            justify: Literal["left", "right"] = "left" if column in spec.rows else "right"
            table.add_column(column.rpartition(".")[2] if column in spec.rows else column, justify=justify)
        for row in frame.itertuples(index=False):
            table.add_row(*(text.replace(" [", "\n[").replace(" (", "\n(") for text in row))
        console.print(table)
    for trial in report.trials.values():
        if trial.status != "done":
            print(f"{trial.status}: {trial.hash[:12]}: {trial.reason}")
    for line in mixed(report.trials):
        print(line)
    for path in report.files:
        print(path)


def verdict(report: Report, strict: bool) -> int:
    """0; 1 if nothing succeeded, or with --strict if anything did not."""
    wrong = [trial for trial in report.trials.values() if trial.status != "done"]
    return FAILED if len(wrong) == len(report.trials) or (strict and wrong) else DONE


def list_studies(store: Store, as_json: bool) -> int:
    """Print the built-in studies: name, what it shows, trials of each scale, how many are done."""
    found = []
    for name in built_in():
        scaled = {scale: expand(name, scale, changes={}, only={}, seeds=None) for scale in ("quick", "paper")}
        trials = {
            scale: {"trials": len(study.trials), "done": len(stored_trials(study, store))}
            for scale, study in scaled.items()
        }
        found.append({"name": name, "shows": scaled["quick"].study.shows, **trials})
    if as_json:
        print(json.dumps(found, indent=2))
        return DONE
    table = Table("study", "shows", "quick", "paper")
    for row in found:
        counts = [f"{row[scale]['done']}/{row[scale]['trials']}" for scale in ("quick", "paper")]  # type: ignore[index]
        table.add_row(str(row["name"]), str(row["shows"]), *counts)
    Console().print(table)
    return DONE


if __name__ == "__main__":
    run(main)
