"""Run studies: expand them, run the trials that the store does not have, and report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from fedbench.base.errors import UserError
from fedbench.base.text import say
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.console import print_warning
from fedbench.console.progress import StudyProgress, clock
from fedbench.console.tables import show
from fedbench.cost.cases import Machine
from fedbench.cost.estimate import estimate, model_bytes
from fedbench.cost.shares import check_this_machine
from fedbench.data.official import check_data_dir
from fedbench.jobs.job import EVERYTHING, Job, no_collector
from fedbench.jobs.live import LivePages
from fedbench.jobs.looks import Looks
from fedbench.jobs.options import Request, Selection
from fedbench.jobs.placement import informed, placement
from fedbench.jobs.plans import can_be_decided, decided_with, planned, store_plan
from fedbench.jobs.rehearsal import FirstTrials, order, try_out
from fedbench.render.pages.index import INDEX
from fedbench.render.report import make_report
from fedbench.render.study import PAGE, StudyReport, folder_of
from fedbench.render.study_sheets import note
from fedbench.simulation.compute import pick_device
from fedbench.simulation.engines import check_device
from fedbench.simulation.federation import check_data
from fedbench.specs.expand import ScaledStudy, expand, load_study, study_files
from fedbench.store.mirror import check_place, forget
from fedbench.store.plugins import changed_plugins
from fedbench.store.store import Store, sweep_store
from fedbench.trackers import CommandTrackers, check_trackers
from fedbench.tune.cluster import check_address, connected
from fedbench.tune.options import RunOptions

if TYPE_CHECKING:
    from fedbench.tune.nodes import Nodes

SMOKE = "smoke"  # the study that only tries whether fedbench works


def selected_studies(selection: Selection, store: Store, request: Request | None = None) -> list[ScaledStudy]:
    """Return the selected study, expanded, with its plan; under the name `all` every built-in one except `smoke`.

    store: holds the plans; request: of a command that runs trials, and may ask for seeds until all is decided.
    """
    name, scale = selection.name, selection.scale
    if name == EVERYTHING and selection.only:
        raise UserError("--only picks points of one study's axes; name that study instead of 'all'")
    names, changes = studies_at(scale) if name == EVERYTHING else [name], dict(selection.changes)
    studies = [expand(each, scale, changes=changes, only=selection.only, seeds=selection.seeds) for each in names]
    studies = [replace(study, modules=selection.modules) for study in studies]
    if selection.seeds:  # named one by one: the plan stays that of the file
        return studies
    most = {study.name: decided_with(study, request.most_seeds) if request else None for study in studies}
    if len(studies) == 1 and most[studies[0].name] and not can_be_decided(studies[0]):
        raise UserError(f"--decide: {name} has neither claims nor a baseline, so there is nothing to decide")
    return [planned(study, store, most[study.name] if can_be_decided(study) else None) for study in studies]


def studies_at(scale: str) -> list[str]:
    """Return the built-in studies that have a scale, without `smoke`; scale tiny is made of quick."""
    wanted = "quick" if scale == "tiny" else scale
    return [name for name in study_files() if name != SMOKE and wanted in load_study(name)[1].scales]


class StudyJob(Job):
    """One study, or all of them; trials that belong to several studies are run once."""

    def __init__(self, request: Request) -> None:
        selection, options = request.selection, request.options
        self.store, self.fresh, self.request = Store(selection.out), request.fresh, request
        self.store.check()
        self.studies = selected_studies(selection, self.store, request)
        self.reports: list[StudyReport] = []
        self.progress: StudyProgress | None = None
        self._outcomes: set[str] = set()
        check_trackers(options.trackers)
        self.trackers = CommandTrackers(options.trackers, selection.out)
        self.looks = Looks(self.studies, self.store, request)
        self.studies = self.looks.ahead(self.studies)
        finished = set() if self.fresh else self.store.finished(self.trials)
        self.missing = {hash_: config for hash_, config in self.trials.items() if hash_ not in finished}
        warn_about(self.store)
        modules = dict.fromkeys(module for study in self.studies for module in study.study.import_)
        self.options = complete(options, modules)
        if self.missing:
            check_data_dir(options.data_dir)
            check_machine(options, self.missing.values())
        self._announce(len(finished))
        self._without_model: set[str] = set()
        self._warn_without_model(finished)

    @property
    def trials(self) -> dict[str, TrialConfig]:
        """All trials by their hash, with the seeds that the studies have by now."""
        return {hash_: config for study in self.studies for hash_, config in study.trials.items()}

    def _announce(self, finished: int) -> None:
        """Print how many trials there are, how many are done, and how many belong to several studies."""
        first, trials = self.studies[0], len(self.trials)
        title = f"{first.study.title}{note(first)}" if len(self.studies) == 1 else f"{len(self.studies)} studies"
        say(f"{title}: {trials} trials, {finished} of them done")
        for study in self.studies:
            if study.plan.decides and len(self.studies) == 1:
                say(f"plan: {study.plan.text}; {self.looks.text or 'add --decide to go on with it'}")
            elif study.outside or study.plan.margins != study.study.margins:
                say(f"plan of {study.name}: {study.plan.text}; other seeds and margins move no verdict")
        if shared := sum(len(study.trials) for study in self.studies) - trials:
            say(f"{shared} more trials are shared: they belong to several studies and are run once")

    def _warn_without_model(self, hashes: Iterable[str]) -> None:
        """With --save-model: warn once about every finished trial that has no stored model."""
        if not self.options.save_model:
            return
        done = {hash_ for hash_ in hashes if self.store.status(hash_) == "done"} - self._without_model
        without = {hash_ for hash_ in done if not self.store.model(hash_).is_file()}
        self._without_model |= without
        if without:
            trials = f"{len(without)} stored trials were" if len(without) > 1 else "1 stored trial was"
            print_warning(
                f"--save-model: {trials} run without it and {'have' if len(without) > 1 else 'has'} no model; "
                "add --fresh to run everything that the command names again and keep its models"
            )

    def estimate(self) -> None:
        """Print time, memory and disk space that the missing trials will take."""
        place = placement(self.options, list(self.missing.values()), self.store, Machine.here())
        cost = estimate(self.missing.values(), self.store, place.pace)
        at_once, memory = place.at_once, cost.memory / 2**20
        say(f"{len(self.missing)} trials to run, {at_once} at a time on this machine's {place.where}")
        say(f"time: about {clock(cost.seconds / at_once)} ({clock(cost.seconds)} on one worker; {cost.source})")
        say(f"memory: about {memory:.0f} MiB for the largest trial, {at_once * memory:.0f} in all")
        models = sum(map(model_bytes, self.missing.values())) if self.options.save_model else 0
        say(f"disk: about {(cost.disk + models) / 2**20:.1f} MiB")
        if self.looks.names:
            self.looks.estimate(self.studies, self.trials.keys() - self.missing.keys())
        if place.share:
            gpu = place.gpu_memory / 2**20
            say(f"GPU memory: about {gpu:.0f} MiB for the largest trial, {place.share:g} of a GPU for each")
        if self.request.rehearse:
            self._try_out()

    def _try_out(self) -> None:
        """Run a round of each kind of trial on tiny data: with --try of all kinds, else of those with users' code."""
        for study in self.studies:
            missing = {hash_: config for hash_, config in study.trials.items() if hash_ in self.missing}
            if line := try_out(study, missing, self.options.data_dir, everything=bool(self.request.rehearse)):
                say(line)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Check the data, and make the store ready; no lock is needed. Ctrl-C during this ends the command."""
        if self.missing:
            check_data(self.missing.values(), self.options.data_dir)
            if self.request.rehearse is not False:
                self._try_out()
        self.store.prepare()
        self._sweep()
        for study in self.studies:
            if not self.request.selection.seeds and (self.missing or study.plan.decides):
                store_plan(study, self.store)
        for line in changed_plugins(self.store.out, self.trials.values()):
            say(line)
        if self.missing:
            self.store.mend()
            if self.fresh:
                self.store.retire(self.missing)
                forget(self.options.checkpoints, self.missing)
        self.trackers.prepare([study.name for study in self.studies], print_warning)
        yield

    def run(self) -> None:
        """Run what the store does not have, look by look; if nothing is missing, Ray is not even imported."""
        if not self.missing:
            return
        say(f"page: {page_of(self.studies, self.store)}")
        if not self.looks.names:
            self._run_missing()
            return
        from fedbench.tune.cluster import cluster

        ran = set[str]()
        with cluster(with_trackers(self.options, self.trackers)) as nodes:
            while self.missing:
                self._run_missing(nodes)
                if self.progress is None or self.progress.hopeless:
                    return
                ran |= self.missing.keys()
                before, self.studies = self.studies, self.looks.ahead(self.studies)
                done = self.store.finished(self.trials) | ran
                self.missing = {hash_: config for hash_, config in self.trials.items() if hash_ not in done}
                if self.missing and not self.looks.affordable(self.missing):
                    self.studies, self.missing = before, {}

    def _run_missing(self, nodes: "Nodes | None" = None) -> None:
        """Run the missing trials."""
        names = {
            config.hash: study.name_of(cell, seed)
            for study in self.studies
            for cell in study.cells
            for seed, config in cell.trials.items()
        }
        several = len(self.studies) > 1
        shown = {hash_: f"{name.study}, {name}" if several else str(name) for hash_, name in names.items()}
        missing = order(self.missing)
        watch = None if self.request.keep_going else FirstTrials(missing, shown, works=len(missing) < len(self.trials))
        self.progress = StudyProgress(missing, shown, Console(), watch, self.looks.text)
        options = with_trackers(self.options, self.trackers)
        options = informed(options, list(self.missing.values()), self.store, Machine.here())
        with LivePages(self.studies, self.store, self.progress):
            run_with_progress(missing, names, options, self.progress, nodes)
        self._outcomes |= self.progress.outcomes.keys()
        if why := self.progress.hopeless:
            say(f"stopped: the first trials of several kinds have failed alike, and none is done: {why}")
            say("--keep-going runs the others all the same")

    def _sweep(self) -> None:
        """Remove temporary files of processes that were killed."""
        with suppress(OSError):  # a folder that cannot be written to is reported where it matters
            sweep_store(self.store, self.trials, [folder_of(study, self.store) for study in self.studies])

    def report(self, *, interrupted: bool) -> None:
        """Write all reports, then print them."""
        self.reports = [written_report(study, self.store) for study in self.studies]
        self._sweep()
        for report in self.reports:
            show(report)
        self._warn_without_model(self.trials)  # another command may have run some of them meanwhile
        print_where(self.store, self.studies)
        warn_once = self.progress.warn if self.progress else print_warning
        for study, report in zip(self.studies, self.reports, strict=True):
            which = ", ".join(filter(None, (study.scale, study.variant)))
            self.trackers.report(study.name, which, report.files, warn_once)

    def _unreported(self) -> set[str]:
        return self.trials.keys() - set[str]().union(*(report.trials for report in self.reports))

    def left(self) -> str:
        """Return how many trials have no entry, in words."""
        left = len(self._unreported())
        return f"{left} trials are" if left > 1 else "1 trial is" if left else ""

    @property
    def unstored(self) -> bool:
        """Whether a trial ended, but its entry could not be written."""
        ended = self._outcomes.union(self.progress.outcomes if self.progress else ())
        return not ended.isdisjoint(self._unreported())

    def failed(self, strict: bool) -> bool:
        """Return whether no trial is done or, if `strict`, whether any trial failed or diverged."""
        trials = {hash_: trial for report in self.reports for hash_, trial in report.trials.items()}
        wrong = [trial for trial in trials.values() if trial.status != "done"]
        return len(wrong) == len(trials) or (strict and bool(wrong))


def with_trackers(options: RunOptions, trackers: CommandTrackers) -> RunOptions:
    """Return options with the trackers that can be used, and the environment variables that workers need for them."""
    return replace(options, trackers=trackers.names, environment=trackers.environment())


def run_with_progress(
    trials: dict[str, TrialConfig],
    names: Mapping[str, RunName],
    options: RunOptions,
    progress: StudyProgress,
    nodes: "Nodes | None" = None,
) -> None:
    """Run trials on Ray, which is only imported here, and show their progress.

    nodes: those of a Ray that is in use already; None uses a Ray for these trials alone.
    """
    from fedbench.tune.cluster import cluster

    with progress, nullcontext(nodes) if nodes else cluster(options, progress.say) as there:
        from fedbench.tune.study import run_trials  # late: Ray's environment is set now

        run_trials(trials, names, options, progress, there)


def complete(options: RunOptions, modules: Iterable[str]) -> RunOptions:
    """Return options with the modules that a file imports, and with a place for checkpoints that was tried."""
    place = check_place(options.checkpoints) if options.checkpoints else None
    return replace(options, modules=(*options.modules, *modules), checkpoints=place)


def check_machine(options: RunOptions, configs: Iterable[TrialConfig]) -> None:
    """Raise UserError if no cluster answers at the address or, without one, trials cannot run on this machine.

    What a GPU cannot do is left to the trials: asking it takes some of its memory.
    """
    if options.address:
        check_address(options.address)
    here = not (options.address or connected())
    if here:
        check_this_machine(options.wanted())
    for config in configs:
        name = "cpu" if config.run.device == "auto" and options.gpus_per_trial == 0 else config.run.device
        if (here or name == "cpu") and (device := pick_device(name)).type == "cpu":
            check_device(config, device)


def written_report(study: ScaledStudy, store: Store) -> StudyReport:
    """Write a report without the garbage collector, which would traverse all stored trials again and again."""
    with no_collector():
        return make_report(study, store)


def page_of(studies: Sequence[ScaledStudy], store: Store) -> str:
    """Return the address of a study's page, or of the index over several."""
    page = folder_of(studies[0], store) / PAGE if len(studies) == 1 else store.reports / INDEX
    return page.resolve().as_uri()


def print_where(store: Store, studies: Sequence[ScaledStudy] = ()) -> None:
    """Print the address of the studies' page, and where reports are if not in the results folder."""
    if studies:
        say(f"page: {page_of(studies, store)}")
    if store.reports != store.out:
        say(f"{store.out} is only read: tables and plots are in {store.reports}")


def warn_about(store: Store) -> None:
    """Print what was wrong with entries of the store."""
    for complaint in store.complaints:
        print_warning(complaint)
    store.complaints.clear()
