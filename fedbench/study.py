"""A whole study from the command line: python -m fedbench.study fixed_gamma."""

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from fedbench.base.errors import UserError
from fedbench.base.plugins import import_modules
from fedbench.config.trial import TrialConfig
from fedbench.reports.report import Report, caption, filled_tables, make_report, mixed, note
from fedbench.reports.tables import PROXY_COLUMN, shown
from fedbench.simulation.federation import check_data
from fedbench.specs.expand import ScaledStudy, expand, study_files
from fedbench.specs.paper import row_keys
from fedbench.store.metrics import METRICS
from fedbench.store.store import Store
from fedbench.terminal.command import DONE, FAILED, INTERRUPTED, Parser, run
from fedbench.terminal.estimate import estimate
from fedbench.terminal.options import (
    add_conduct_options,
    add_list_options,
    add_run_options,
    add_study_options,
    check_resources,
    chosen_studies,
    run_options,
    slots,
)
from fedbench.terminal.progress import clock

VERDICT_WORDS = {"holds": "hold", "fails": "fail", "inconclusive": "inconclusive", "no data": "without data"}


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.study", description="Run a study and show its tables.")
    options.add_argument(
        "study", nargs="?", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file"
    )
    add_list_options(options, "studies")
    add_study_options(options)
    add_conduct_options(options, fresh="remove what is stored of this study and run it again", strict="trial")
    add_run_options(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    import_modules(options.modules)
    if options.json and not options.list:
        raise UserError("--json: goes with --list")
    if options.list:
        return list_studies(Store(options.out), options.json)
    if not options.study:
        raise UserError(f"name a study: {', '.join(study_files())}, all, or a YAML file")
    check_resources(options)
    studies, store = chosen_studies(options), Store(options.out)
    if not options.dry_run:
        store.prepare()
    trials = {hash_: config for study in studies for hash_, config in study.trials.items()}
    finished = set() if options.fresh else store.finished(trials)
    missing = {hash_: config for hash_, config in trials.items() if hash_ not in finished}
    warn(store)
    announce(studies, len(trials), len(finished))
    if options.dry_run:
        return show_estimate(list(missing.values()), store, options)
    outcomes, interrupted = dict[str, str](), False
    if missing:
        check_data(missing.values(), options.data_dir)
        if options.fresh:
            store.forget(missing)
        outcomes, interrupted = run_missing(options.study, missing, options)
    reports = {study.name: make_report(study, store) for study in studies}
    for study in studies:
        show(study, reports[study.name])
    left = [hash_ for study in studies for hash_ in study.trials if hash_ not in reports[study.name].trials]
    if left:
        command = shlex.join(["python", "-m", "fedbench.study", *(a for a in arguments if a != "--fresh")])
        print(f"{len(set(left))} trials are left; go on with: {command}", file=sys.stderr)
        return INTERRUPTED if interrupted and not any(hash_ in outcomes for hash_ in left) else FAILED
    return verdict(list(reports.values()), options.strict)


def announce(studies: Sequence[ScaledStudy], trials: int, finished: int) -> None:
    """Say what is about to be run, and how much of it several studies share."""
    title = f"{studies[0].study.title}{note(studies[0])}" if len(studies) == 1 else f"{len(studies)} studies"
    print(f"{title}: {trials} trials, {finished} of them done", flush=True)
    if shared := sum(len(study.trials) for study in studies) - trials:
        print(f"{shared} more trials are shared: they belong to several studies and are run once", flush=True)


def run_missing(name: str, missing: dict[str, TrialConfig], options: argparse.Namespace) -> tuple[dict[str, str], bool]:
    """Run trials on Ray, which is only imported here; returns how each one that ended did, and whether Ctrl-C came."""
    from fedbench.tune.progress import StudyProgress
    from fedbench.tune.runner import run_trials

    interrupted = True
    with suppress(KeyboardInterrupt), StudyProgress(missing, Console()) as progress:
        run_trials(Path(name).stem, missing, run_options(options), progress)
        interrupted = False
    return progress.outcomes, interrupted


def warn(store: Store) -> None:
    """Print what was wrong with the store."""
    for complaint in store.complaints:
        print(f"warning: {complaint}", file=sys.stderr)
    store.complaints.clear()


def show_estimate(missing: list[TrialConfig], store: Store, options: argparse.Namespace) -> int:
    """Print what is left to do, and roughly what it costs."""
    cost = estimate(missing, store)
    at_once, memory = slots(options), cost.memory / 2**20
    print(f"{len(missing)} trials to run, {at_once} at a time on this machine's CPUs")
    print(f"time: about {clock(cost.seconds / at_once)} ({clock(cost.seconds)} on one worker; {cost.source})")
    print(f"memory: about {memory:.0f} MiB for the largest trial, {at_once * memory:.0f} in all")
    print(f"disk: about {cost.disk / 2**20:.1f} MiB")
    gpu = [trial.summary.get("peak_gpu_memory_bytes") or 0 for trial in store.all()]
    if any(gpu):
        print(f"GPU memory: at most {max(gpu) / 2**20:.0f} MiB in a stored trial; choose --gpus-per-trial by it")
    return DONE


def show(study: ScaledStudy, report: Report) -> None:
    """Print every table as it would stand in a paper, then the trials that went wrong and the files."""
    console = Console()
    for name in filled_tables(study):
        spec = study.study.tables[name]
        frame = shown(study, report.cells, name, ("[bold]", "[/bold]"), "\n±")  # narrow enough for most terminals
        table = Table(show_lines=True, title=caption(study, name), title_justify="left")
        for column in frame.columns:
            label = column in (*row_keys(spec), PROXY_COLUMN)
            justify: Literal["left", "right"] = "left" if label else "right"
            table.add_column(column.rpartition(".")[2] if label else column, justify=justify, overflow="fold")
        for row in frame.itertuples(index=False):
            table.add_row(*(_broken(text) for text in row))
        console.print(table)
    if report.findings:
        counts = Counter[str](found.verdict for found in report.findings)
        summary = ", ".join(
            f"{counts[verdict]} {VERDICT_WORDS[verdict]}" for verdict in VERDICT_WORDS if counts[verdict]
        )
        print(f"claims at this scale: {summary} (claims.csv; report --check prints them)")
    for trial in report.trials.values():
        if trial.status != "done":
            print(f"{trial.status}: {trial.hash[:12]}: {trial.reason}")
    for line in mixed(report.trials):
        print(line)
    for path in report.files:
        print(path)


def _broken(text: str) -> str:
    """A cell in several lines, as narrow as can be; a metric's name as its label."""
    if text in METRICS:
        return METRICS[text].label
    return text.replace(" [", "\n[").replace(" (", "\n(")


def verdict(reports: Sequence[Report], strict: bool) -> int:
    """0; 1 if nothing succeeded, or with --strict if anything did not."""
    trials = {hash_: trial for report in reports for hash_, trial in report.trials.items()}
    wrong = [trial for trial in trials.values() if trial.status != "done"]
    return FAILED if len(wrong) == len(trials) or (strict and wrong) else DONE


def list_studies(store: Store, as_json: bool) -> int:
    """Print the built-in studies: name, what it shows, trials of each scale, how many are done."""
    found: list[dict[str, Any]] = []
    for name in study_files():
        scaled = {scale: expand(name, scale, changes={}, only={}, seeds=None) for scale in ("quick", "paper")}
        trials = {
            scale: {"trials": len(study.trials), "done": len(store.finished(study.trials))}
            for scale, study in scaled.items()
        }
        found.append({"name": name, "shows": scaled["quick"].study.shows, **trials})
    if as_json:
        print(json.dumps(found, indent=2))
        return DONE
    table = Table("study", "shows", "quick", "paper")
    for row in found:
        counts = [f"{row[scale]['done']}/{row[scale]['trials']}" for scale in ("quick", "paper")]
        table.add_row(row["name"], row["shows"], *counts)
    Console().print(table)
    return DONE


if __name__ == "__main__":
    run(main)
