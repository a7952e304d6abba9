"""Running studies: what the study command does, and which studies options name."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedbench.analysis.differences import differences, trials_in
from fedbench.analysis.trials import stored_trials
from fedbench.base.errors import UserError
from fedbench.base.settings import parse_assignments
from fedbench.base.text import say
from fedbench.cli.command import print_warning
from fedbench.cli.conduct import Job, no_collector
from fedbench.cli.live import LivePages
from fedbench.cli.options import checkpoint_place, chosen_seeds, run_options
from fedbench.cli.placement import informed, placement
from fedbench.cli.progress import StudyProgress, clock
from fedbench.cli.tables import show, show_check, show_comparison, show_differences
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.cost.cases import Machine
from fedbench.cost.estimate import estimate, model_bytes
from fedbench.data.official import check_data_dir
from fedbench.render.pages.index import INDEX
from fedbench.render.pages.write import PAGE
from fedbench.render.report import Report, folder_of, make_report
from fedbench.render.shown import note
from fedbench.simulation.compute import pick_device
from fedbench.simulation.engines import check_device
from fedbench.simulation.federation import check_data
from fedbench.specs.expand import ScaledStudy, expand, load_study, study_files
from fedbench.store.mirror import forget
from fedbench.store.plugins import changed_plugins
from fedbench.store.store import Store
from fedbench.store.sweep import sweep_store
from fedbench.trackers import CommandTrackers, check_trackers
from fedbench.tune.fit import check_address, check_here
from fedbench.tune.local import connected
from fedbench.tune.options import RunOptions

if TYPE_CHECKING:
    from fedbench.tune.nodes import Nodes

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
    studies = [expand(name, options.scale, changes=changes, only=only, seeds=seeds) for name in names]
    return [replace(study, modules=options.modules) for study in studies]


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
        check_trackers(options.track)
        self.trackers = CommandTrackers(options.track, options.out)
        self.store.check()
        finished = set() if options.fresh else self.store.finished(self.trials)
        self.missing = {hash_: config for hash_, config in self.trials.items() if hash_ not in finished}
        warn(self.store)
        if self.missing:
            check_data_dir(options.data_dir)
            check_machine(options, self.missing.values())
        self._announce(len(finished))
        self._unkept: set[str] = set()
        self._say_without_model(finished)

    def _announce(self, finished: int) -> None:
        """Say what is about to be run, and how much of it several studies share."""
        first, trials = self.studies[0], len(self.trials)
        several = f"{len(self.studies)} studies"
        title = f"{first.study.title}{note(first)}" if len(self.studies) == 1 else several
        say(f"{title}: {trials} trials, {finished} of them done")
        if shared := sum(len(study.trials) for study in self.studies) - trials:
            say(f"{shared} more trials are shared: they belong to several studies and are run once")

    def _say_without_model(self, hashes: Iterable[str]) -> None:
        """With --save-model: say once of which finished trials there is no model, and how to get one."""
        if not self.options.save_model:
            return
        done = {hash_ for hash_ in hashes if self.store.status(hash_) == "done"} - self._unkept
        without = {hash_ for hash_ in done if not self.store.model(hash_).is_file()}
        self._unkept |= without
        if without:
            trials = f"{len(without)} stored trials were" if len(without) > 1 else "1 stored trial was"
            print_warning(
                f"--save-model: {trials} run without it and {'have' if len(without) > 1 else 'has'} no model; "
                "add --fresh to run everything that the command names again and keep its models"
            )

    def estimate(self) -> None:
        """Time, memory and disk of what is missing."""
        place = placement(run_options(self.options), list(self.missing.values()), self.store, Machine.here())
        cost = estimate(self.missing.values(), self.store, place.pace)
        at_once, memory = place.at_once, cost.memory / 2**20
        say(f"{len(self.missing)} trials to run, {at_once} at a time on this machine's {place.where}")
        say(f"time: about {clock(cost.seconds / at_once)} ({clock(cost.seconds)} on one worker; {cost.source})")
        say(f"memory: about {memory:.0f} MiB for the largest trial, {at_once * memory:.0f} in all")
        models = sum(map(model_bytes, self.missing.values())) if self.options.save_model else 0
        say(f"disk: about {(cost.disk + models) / 2**20:.1f} MiB")
        if place.share:
            gpu = place.gpu_memory / 2**20
            say(f"GPU memory: about {gpu:.0f} MiB for the largest trial, {place.share:g} of a GPU for each")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is held, but data and store are made ready; Ctrl-C here ends the command."""
        if self.missing:
            check_data(self.missing.values(), self.options.data_dir)
        self.store.prepare()
        self._sweep()
        for line in changed_plugins(self.options.out, self.trials.values()):
            say(line)
        if self.missing:
            self.store.mend()
            if self.options.fresh:
                self.store.retire(self.missing)
                forget(checkpoint_place(self.options.checkpoints), self.missing)
        self.trackers.prepare([study.name for study in self.studies], print_warning)
        yield

    def run(self) -> None:
        """Run what the store does not have; if nothing is missing Ray is not even imported."""
        if not self.missing:
            return
        names, several = self._names(), len(self.studies) > 1
        shown = {hash_: f"{name.study}, {name}" if several else str(name) for hash_, name in names.items()}
        self.progress = StudyProgress(self.missing, shown, Console())
        modules = dict.fromkeys(module for study in self.studies for module in study.study.import_)
        how = tracking(run_options(self.options, list(modules)), self.trackers)
        how = replace(how, save_model=self.options.save_model)
        how = informed(how, list(self.missing.values()), self.store, Machine.here())
        say(f"page: {self._page()}")
        with LivePages(self.studies, self.store, self.progress):
            run_shown(self.missing, names, how, self.progress)

    def _sweep(self) -> None:
        """Remove what was left by processes that have been killed."""
        with suppress(OSError):  # a read-only folder, say, is for others to complain of
            sweep_store(self.store, self.trials, [folder_of(study, self.store) for study in self.studies])

    def _page(self) -> str:
        """The address of the study's page, or of the index over several."""
        return page_of(self.studies, self.store)

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
        self.reports = [_reported(study, self.store) for study in self.studies]
        self._sweep()
        for study, report in zip(self.studies, self.reports, strict=True):
            show(study, report)
        self._say_without_model(self.trials)  # another command may have run some of them meanwhile
        say(f"page: {self._page()}")
        say_where(self.store)
        warn_once = self.progress.warn if self.progress else print_warning
        for study, report in zip(self.studies, self.reports, strict=True):
            which = ", ".join(filter(None, (study.scale, study.variant)))
            self.trackers.report(study.name, which, report.files, warn_once)

    def _unrun(self) -> set[str]:
        return self.trials.keys() - set[str]().union(*(report.trials for report in self.reports))

    def left(self) -> str:
        """Trials that have no entry."""
        unrun = self._unrun()
        return f"{len(unrun)} trials are" if len(unrun) > 1 else "1 trial is" if unrun else ""

    @property
    def lost(self) -> bool:
        """Whether a trial ended whose entry could not be written."""
        return self.progress is not None and any(hash_ in self.progress.outcomes for hash_ in self._unrun())

    def failed(self, strict: bool) -> bool:
        """All trials went wrong or, where strict, any did."""
        trials = {hash_: trial for report in self.reports for hash_, trial in report.trials.items()}
        wrong = [trial for trial in trials.values() if trial.status != "done"]
        return len(wrong) == len(trials) or (strict and bool(wrong))


def tracking(options: RunOptions, trackers: CommandTrackers) -> RunOptions:
    """The options with the trackers that can be used, and what workers need for them."""
    return replace(options, trackers=trackers.names, environment=trackers.environment())


def run_shown(
    trials: dict[str, TrialConfig],
    names: Mapping[str, RunName],
    options: RunOptions,
    progress: StudyProgress,
    nodes: "Nodes | None" = None,
) -> None:
    """Run trials on Ray, which is only imported here, while the progress is shown.

    nodes: those of a Ray that is in use already; without them one is used for these trials alone.
    """
    from fedbench.tune.cluster import cluster

    with progress, nullcontext(nodes) if nodes else cluster(options, progress.say) as there:
        from fedbench.tune.runner import run_trials  # late: Ray's environment is set now

        run_trials(trials, names, options, progress, there)


def check_machine(options: argparse.Namespace, configs: Iterable[TrialConfig]) -> None:
    """There must be a cluster at the address or, without one, trials must fit on this machine.

    What a CPU cannot do is found here; what a GPU cannot, by the trials: to ask it takes some of its memory.
    """
    if options.address:
        check_address(options.address)
    how, here = run_options(options), not (options.address or connected())
    if here:
        check_here(how)
    for config in configs:
        name = "cpu" if config.run.device == "auto" and how.gpus_per_trial == 0 else config.run.device
        if (here or name == "cpu") and (device := pick_device(name)).type == "cpu":
            check_device(config, device)


def report_again(options: argparse.Namespace) -> None:
    """Make and show the reports of stored trials; where asked for, beside the paper, and beside another folder."""
    studies, store = chosen_studies(options), results_in("--out", options.out, options.name)
    other = results_in("--compare", options.compare[0], options.name) if options.compare else None
    for study in studies:
        report = _reported(study, store)
        warn(store)
        show(study, report)
        if options.check:
            show_check(study, report, store)
        if other:
            show_comparison(study, report, store, stored_trials(study, other))
            warn(other)
        if missing := len(study.trials) - len(report.trials):
            say(f"{missing} of {len(study.trials)} trials have not been run")
    say(f"page: {page_of(studies, store)}")
    say_where(store)


def _reported(study: ScaledStudy, store: Store) -> Report:
    """Make a report without the garbage collector, which would walk through all stored trials again and again."""
    with no_collector():
        return make_report(study, store)


def compare_folders(options: argparse.Namespace) -> bool:
    """Show what two folders say of the same studies; whether anything differs beyond the tolerance."""
    stores = [results_in("--compare", folder, options.name) for folder in options.compare]
    found = False, 0
    for study in chosen_studies(options):
        trials = [trials_in(study, store) for store in stores]
        if not any(trials) and options.name == EVERYTHING:
            continue
        compared = differences(study, *trials)
        show_differences(study, compared, options.compare, options.tolerance)
        found = found[0] or compared.beyond(options.tolerance) > 0, found[1] + compared.both
    for store in stores:
        warn(store)
    if not found[1]:
        folders = " and ".join(map(str, options.compare))
        raise UserError(f"--compare: no trial of {options.name} at scale {options.scale} is in both {folders}")
    return found[0]


def page_of(studies: Sequence[ScaledStudy], store: Store) -> str:
    """The address of a study's page, or of the index over several."""
    page = folder_of(studies[0], store) / PAGE if len(studies) == 1 else store.reports / INDEX
    return page.resolve().as_uri()


def results_in(option: str, out: Path, study: str) -> Store:
    """The store in a folder that an option names; there must be one."""
    store = Store(out)
    if not store.trials.is_dir():
        raise UserError(f"{option} {out}: holds no results; run python -m fedbench.study {study} first")
    return store


def say_where(store: Store) -> None:
    """Say where reports are, unless that is where everybody looks for them."""
    if store.reports != store.out:
        say(f"{store.out} is only read: tables and plots are in {store.reports}")


def warn(store: Store) -> None:
    """Print what was wrong with the store."""
    for complaint in store.complaints:
        print_warning(complaint)
    store.complaints.clear()
