"""Running studies: what the study command does, and which studies options name."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from fedbench.base.errors import UserError
from fedbench.base.settings import parse_assignments
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.reports.report import Report, make_report, stored_trials
from fedbench.reports.shown import note
from fedbench.simulation.compute import pick_device
from fedbench.simulation.federation import check_data
from fedbench.specs.expand import ScaledStudy, expand, load_study, study_files
from fedbench.store.plugins import changed_plugins
from fedbench.store.store import Store
from fedbench.store.trackers import TRACKERS
from fedbench.terminal.conduct import Job
from fedbench.terminal.estimate import estimate
from fedbench.terminal.options import chosen_seeds, run_options
from fedbench.terminal.progress import StudyProgress, clock
from fedbench.terminal.tables import show, show_check, show_comparison
from fedbench.tune.fit import check_address, check_here, joined
from fedbench.tune.options import RunOptions

EVERYTHING = "all"  # the name for all studies together, but the one that only tries whether things work
SMOKE = "smoke"


def chosen_studies(options: argparse.Namespace) -> list[ScaledStudy]:
    """The study that the options name, expanded; all of the built-in ones under the name `all`."""
    only: dict[str, list[str]] = {}
    for text in options.only:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise UserError(f"--only {text}: expected key=value[,value], such as data.alpha=100,1")
        only.setdefault(key, []).append(values)
    seeds = chosen_seeds(options)
    if options.name == EVERYTHING and only:
        raise UserError("--only picks points of one study's axes; name that study instead of 'all'")
    names = [options.name] if options.name != EVERYTHING else studies_at(options.scale)
    changes = parse_assignments(options.set)
    return [expand(name, options.scale, changes=changes, only=only, seeds=seeds) for name in names]


def studies_at(scale: str) -> list[str]:
    """The built-in studies that have a scale (tiny comes of quick), but the one that only tries things."""
    wanted = "quick" if scale == "tiny" else scale
    return [name for name in study_files() if name != SMOKE and wanted in load_study(name)[1].scales]


class StudyJob(Job):
    """One study, or all of them: trials that several share are run once."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.store = options, Store(options.out)
        self.studies = chosen_studies(options)
        self.trials = {hash_: config for study in self.studies for hash_, config in study.trials.items()}
        self.reports: list[Report] = []
        self.progress: StudyProgress | None = None
        for name in options.track:
            TRACKERS.get(name)
        self.store.check()
        finished = set() if options.fresh else self.store.finished(self.trials)
        self.missing = {hash_: config for hash_, config in self.trials.items() if hash_ not in finished}
        warn(self.store)
        if self.missing:
            check_machine(options, self.missing.values())
        self._announce(len(finished))

    def _announce(self, finished: int) -> None:
        """Say what is about to be run, and how much of it several studies share."""
        first, trials = self.studies[0], len(self.trials)
        several = f"{len(self.studies)} studies"
        title = f"{first.study.title}{note(first)}" if len(self.studies) == 1 else several
        print(f"{title}: {trials} trials, {finished} of them done", flush=True)
        if shared := sum(len(study.trials) for study in self.studies) - trials:
            print(f"{shared} more trials are shared: they belong to several studies and are run once", flush=True)

    def estimate(self) -> None:
        """Time, memory and disk of what is missing."""
        cost = estimate(self.missing.values(), self.store)
        at_once, memory = run_options(self.options).slots(os.cpu_count() or 1), cost.memory / 2**20
        print(f"{len(self.missing)} trials to run, {at_once} at a time on this machine's CPUs")
        print(f"time: about {clock(cost.seconds / at_once)} ({clock(cost.seconds)} on one worker; {cost.source})")
        print(f"memory: about {memory:.0f} MiB for the largest trial, {at_once * memory:.0f} in all")
        print(f"disk: about {cost.disk / 2**20:.1f} MiB")
        gpu = [trial.summary.get("peak_gpu_memory_bytes") or 0 for trial in self.store.all()]
        if any(gpu):
            print(f"GPU memory: at most {max(gpu) / 2**20:.0f} MiB in a stored trial; choose --gpus-per-trial by it")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is held, but data and store are made ready; Ctrl-C here ends the command."""
        if self.missing:
            check_data(self.missing.values(), self.options.data_dir)
        self.store.prepare()
        for line in changed_plugins(self.options.out, self.trials.values()):
            print(line, flush=True)
        if self.missing:
            self.store.mend()
            if self.options.fresh:
                self.store.retire(self.missing)
        yield

    def run(self) -> None:
        """Run what the store does not have; if nothing is missing Ray is not even imported."""
        if not self.missing:
            return
        names, several = self._names(), len(self.studies) > 1
        shown = {hash_: f"{name.study}, {name}" if several else str(name) for hash_, name in names.items()}
        self.progress = StudyProgress(self.missing, shown, Console())
        modules = dict.fromkeys(module for study in self.studies for module in study.study.import_)
        run_shown(self.missing, names, run_options(self.options, list(modules)), self.progress)

    def _names(self) -> dict[str, RunName]:
        """What to call each trial."""
        return {
            config.hash: study.name_of(cell, seed)
            for study in self.studies
            for cell in study.cells
            for seed, config in cell.trials.items()
        }

    def report(self, *, interrupted: bool) -> None:
        """Make all reports, then show them."""
        self.reports = [make_report(study, self.store) for study in self.studies]
        for study, report in zip(self.studies, self.reports, strict=True):
            show(study, report)
        say_where(self.store)

    def _unrun(self) -> set[str]:
        return self.trials.keys() - set[str]().union(*(report.trials for report in self.reports))

    def left(self) -> str:
        """Trials that have no entry."""
        unrun = self._unrun()
        return f"{len(unrun)} trials are" if unrun else ""

    @property
    def lost(self) -> bool:
        """Whether a trial ended whose entry could not be written."""
        return self.progress is not None and any(hash_ in self.progress.outcomes for hash_ in self._unrun())

    def failed(self, strict: bool) -> bool:
        """All trials went wrong or, where strict, any did."""
        trials = {hash_: trial for report in self.reports for hash_, trial in report.trials.items()}
        wrong = [trial for trial in trials.values() if trial.status != "done"]
        return len(wrong) == len(trials) or (strict and bool(wrong))


def run_shown(
    trials: dict[str, TrialConfig], names: Mapping[str, RunName], options: RunOptions, progress: StudyProgress
) -> None:
    """Run trials on Ray, which is only imported here, while the progress is shown."""
    from fedbench.tune.runner import run_trials

    with progress:
        run_trials(trials, names, options, progress)


def check_machine(options: argparse.Namespace, configs: Iterable[TrialConfig]) -> None:
    """There must be a cluster at the address or, without one, trials must fit on this machine."""
    if options.address:
        check_address(options.address)
    if options.address or joined():
        return
    check_here(run_options(options))
    for device in {config.run.device for config in configs}:
        pick_device(device)


def report_again(options: argparse.Namespace) -> None:
    """Make and show the reports of stored trials; where asked for, beside the paper, and beside another folder."""
    studies, store = chosen_studies(options), results_in("--out", options.out, options.name)
    other = results_in("--compare", options.compare, options.name) if options.compare else None
    for study in studies:
        report = make_report(study, store)
        warn(store)
        show(study, report)
        if options.check:
            show_check(study, report, store)
        if other:
            show_comparison(study, report, store, stored_trials(study, other))
            warn(other)
        if missing := len(study.trials) - len(report.trials):
            print(f"{missing} of {len(study.trials)} trials have not been run")
    say_where(store)


def results_in(option: str, out: Path, study: str) -> Store:
    """The store in a folder that an option names; there must be one."""
    store = Store(out)
    if not store.trials.is_dir():
        raise UserError(f"{option} {out}: holds no results; run python -m fedbench.study {study} first")
    return store


def say_where(store: Store) -> None:
    """Say where reports are, unless that is where everybody looks for them."""
    if store.reports != store.out:
        print(f"{store.out} is only read: tables and plots are in {store.reports}")


def warn(store: Store) -> None:
    """Print what was wrong with the store."""
    for complaint in store.complaints:
        print(f"warning: {complaint}", file=sys.stderr)
    store.complaints.clear()
