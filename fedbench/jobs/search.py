"""Run searches: suggestions of settings for every method, then a table of default and best settings."""

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from rich.console import Console

from fedbench.base.errors import UserError
from fedbench.base.text import say
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.console import print_warning
from fedbench.console.progress import SearchProgress, StudyProgress, clock
from fedbench.console.tables import show, show_sheet
from fedbench.cost.cases import Machine
from fedbench.cost.estimate import estimate
from fedbench.data.official import check_data_dir
from fedbench.jobs.job import Job
from fedbench.jobs.live import LivePages
from fedbench.jobs.options import SEARCH_PREFIX, Request, Selection
from fedbench.jobs.placement import informed, placement
from fedbench.jobs.rehearsal import FirstTrials, order, try_out
from fedbench.jobs.study import (
    check_machine,
    complete,
    page_of,
    print_where,
    run_with_progress,
    warn_about,
    with_trackers,
)
from fedbench.searches.report import SearchReport, make_search_report, result_of
from fedbench.searches.result import METHOD, SETTINGS, result_study, tuned
from fedbench.searches.suggestions import (
    Suggestions,
    check_sampler,
    default_url,
    forget,
    is_known,
    is_there,
    open_storage,
    outcome,
    parse_url,
    shown_url,
    sole_driver,
)
from fedbench.simulation.federation import check_data
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.parameters import corners
from fedbench.specs.space import ScaledSpace, expand_space
from fedbench.store.store import Store
from fedbench.trackers import CommandTrackers, check_trackers
from fedbench.tune.options import RunOptions

if TYPE_CHECKING:
    from fedbench.tune.nodes import Nodes


@dataclass(frozen=True)
class SearchOptions:
    """How to search; trials: suggestions for each method in total, None for as many as the space says.

    sampler: how Optuna chooses; stop_early: whether ASHA stops suggestions that fall behind; storage: the URL of
    Optuna's storage, None for an SQLite file in the results folder.
    """

    trials: int | None = None
    sampler: str = "tpe"
    stop_early: bool = True
    storage: str | None = None


def selected_space(selection: Selection, how: SearchOptions) -> ScaledSpace:
    """Return the selected space, checked together with the options that depend on it."""
    if how.trials is not None and how.trials < 1:
        raise UserError(f"--trials {how.trials}: must be at least 1")
    if other := [axis for axis in selection.only if axis != "method"]:
        raise UserError(f"--only {other[0]}: a search is picked by method, such as --only method=FedAvg,FedLAW")
    space = expand_space(
        selection.name,
        selection.scale,
        changes=dict(selection.changes),
        only=selection.only.get("method"),
        seeds=selection.seeds,
        trials=how.trials,
    )
    for arm in tuned(space):
        check_sampler(how.sampler, arm)
    return space


class SearchJob(Job):
    """One search: the suggestions of every method, then the table of default and best settings."""

    def __init__(self, request: Request, how: SearchOptions) -> None:
        selection, options = request.selection, request.options
        self.store, self.fresh, self.how, self.request = Store(selection.out), request.fresh, how, request
        self.space = selected_space(selection, how)
        self.folder = selection.out / "searches" / self.space.name / self.space.scale
        self.url = how.storage or default_url(self.folder / self.space.other)
        parse_url(self.url)
        check_data_dir(options.data_dir)
        check_trackers(options.trackers)
        self.trackers = CommandTrackers(options.trackers, selection.out)
        self.options = complete(options, self.space.space.import_)
        self.store.check()
        self.searches: list[Suggestions] = []
        self.made: SearchReport | None = None
        self._interrupted = False

    def estimate(self) -> None:
        """Print which suggestions and runs are left, and what they cost at most: stopping early saves some of it."""
        check_machine(self.options, self._all_configs())
        space, configs = self.space, list[TrialConfig]()
        storage = open_storage(self.url) if is_there(self.url) and not self.fresh else None
        for arm in space.arms:
            if not arm.parameters:
                say(f"{arm.label}: a reference; nothing is searched")
                configs += space.final(arm.fixed).values()
                continue
            known = storage and is_known(storage, space, arm)
            left = Suggestions.open(storage, space, arm).left if storage and known else space.trials
            over = ", ".join(map(str, arm.parameters))
            say(f"{arm.label}: {left} of {space.trials} suggestions to run over {over}")
            configs += space.suggestion(arm.fixed) * left + list(space.final(arm.fixed).values()) * 2
        seeds = len(space.suggestion_seeds)
        place = placement(self.options, configs, self.store, Machine.here(), seeds)
        cost, at_once = estimate(configs, self.store, place.pace), place.at_once
        say(f"{seeds} runs a suggestion, {at_once} suggestions at a time on this machine's {place.where}")
        say(f"time: at most about {clock(cost.seconds / at_once)} ({clock(cost.seconds)} on one worker; {cost.source})")
        say(f"memory: about {cost.memory * seeds / 2**20:.0f} MiB for a suggestion")
        if self.request.rehearse:
            self._try_out()

    def _try_out(self) -> None:
        """Run a round of each kind of trial on tiny data: with --try of all kinds, else of those with users' code."""
        study = result_study(self.space, {}, self.request.selection.modules)
        finished = set() if self.fresh else self.store.finished(study.trials)
        missing = {hash_: config for hash_, config in study.trials.items() if hash_ not in finished}
        if line := try_out(study, missing, self.options.data_dir, everything=bool(self.request.rehearse)):
            say(line)

    @property
    def study(self) -> ScaledStudy:
        """The result of the search, as far as it is known."""
        return result_of(self.space, self.searches, self.request.selection.modules)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Check the data, open the storage, and hold the lock of the search."""
        configs = self._all_configs()
        if not is_there(self.url):  # else there may be nothing left to run
            check_machine(self.options, configs)
        check_data(configs, self.options.data_dir)
        if self.request.rehearse is not False:
            self._try_out()
        storage = open_storage(self.url) if self.how.storage else None
        self.store.prepare()
        with sole_driver(self.folder / self.space.other):
            storage = storage or open_storage(self.url)
            if self.fresh:
                forget(storage, self.space)
            self.searches = [Suggestions.open(storage, self.space, arm) for arm in tuned(self.space)]
            self.trackers.prepare([SEARCH_PREFIX + self.space.name], print_warning)
            yield

    def _all_configs(self) -> list[TrialConfig]:
        """Return configs that need all data sets and partitions of the search, as far as these are known before."""
        configs: list[TrialConfig] = []
        for arm in self.space.arms:
            for settings in corners(arm.fixed, arm.parameters):
                configs += [*self.space.suggestion(settings), *self.space.final(settings).values()]
        return configs

    def run(self) -> None:
        """Run suggestions, then the table, on one Ray; if nothing is left, Ray is not even imported."""
        self._announce(again=sum(search.reclaim(crashed=True) for search in self.searches))
        if not any(search.left for search in self.searches):
            self._run_final()
            return
        from fedbench.tune.cluster import cluster

        with cluster(self._informed) as nodes:
            for search in self.searches:
                if search.left:
                    self._run_suggestions(search, nodes)
            self._run_final(nodes)

    def _announce(self, again: int) -> None:
        """Print what is searched, and how much of it is done."""
        trials, searches = self.space.trials, self.searches
        done, total = sum(min(len(s.settled), trials) for s in searches), trials * len(searches)
        methods = f"{len(searches)} methods, " if len(searches) > 1 else ""
        left = f"; {again} that were interrupted or failed are run again" if again else ""
        say(f"{self.space.title}: {methods}{total} suggestions, {done} of them done{left}")

    @cached_property
    def _informed(self) -> RunOptions:
        """The options with what is known about the GPU memory that trials take."""
        runs = len(self.space.suggestion_seeds)
        return informed(self.options, self._all_configs(), self.store, Machine.here(), runs)

    def _run_suggestions(self, search: Suggestions, nodes: "Nodes") -> None:
        """Run the suggestions that are left of one method's budget."""
        from fedbench.tune.search import search_arm

        space, done = self.space, len(search.settled)
        rounds = space.length(search.arm)
        with SearchProgress(search.arm.label, done, space.trials, rounds, space.shown, Console()) as progress:
            sampler, stop_early = self.how.sampler, self.how.stop_early
            search_arm(search, self._informed, progress, nodes, sampler=sampler, stop_early=stop_early)

    def _run_final(self, nodes: "Nodes | None" = None) -> None:
        """Run default and best settings over all seeds for the table, as far as the store does not have them."""
        study = self.study
        wanted, finished = study.trials, self.store.finished(study.trials)
        missing = order({hash_: config for hash_, config in wanted.items() if hash_ not in finished})
        if not missing:
            return
        self.store.mend()
        say(f"table: {len(wanted)} runs, {len(wanted) - len(missing)} of them done")
        say(f"page: {page_of([study], self.store)}")
        names = run_names(study)
        shown = {hash_: str(name) for hash_, name in names.items()}
        watch = None if self.request.keep_going else FirstTrials(missing, shown, works=len(missing) < len(wanted))
        progress = StudyProgress(missing, shown, Console(), watch)
        with LivePages([study], self.store, progress):
            run_with_progress(missing, names, with_trackers(self._informed, self.trackers), progress, nodes)
        if progress.hopeless:
            say(f"stopped: the first runs of the table have failed alike, and none is done: {progress.hopeless}")

    def report(self, *, interrupted: bool) -> None:
        """Write and print the report; without plots if the search was interrupted, so that it ends soon."""
        made = self.made = make_search_report(self.study, self.searches, self.store, plots=not interrupted)
        warn_about(self.store)
        show(made.report)
        show_search(self.searches, made, self.url)
        print_where(self.store, [made.study])
        self._interrupted = interrupted
        which = ", ".join(filter(None, (self.space.scale, self.space.variant)))
        self.trackers.report(SEARCH_PREFIX + self.space.name, which, made.files, print_warning)

    def left(self) -> str:
        """Return how many suggestions and runs of the table are left, in words."""
        left = sum(search.left for search in self.searches)
        runs = sum(self.store.get(hash_) is None for hash_ in self.study.trials)
        return f"{left} suggestions and {runs} runs of the table are" if self._interrupted or left or runs else ""

    def failed(self, strict: bool) -> bool:
        """Return whether no suggestion or no run of the table was completed or, if `strict`, whether any failed."""
        trials = [self.store.get(hash_) for hash_ in self.study.trials]
        bad = [t for search in self.searches for t in search.settled if outcome(t) not in ("done", "stopped")]
        wrong = [trial for trial in trials if trial and trial.status != "done"]
        nothing = not any(search.best for search in self.searches) or len(wrong) == len(trials)
        return nothing or (strict and bool(bad or wrong))


def run_names(study: ScaledStudy) -> dict[str, RunName]:
    """Return the name of each run of a search's table, by hash."""
    return {
        config.hash: RunName(SEARCH_PREFIX + study.name, f"{cell.labels[METHOD]}, {cell.labels[SETTINGS]}", seed)
        for cell in reversed(study.cells)  # where default and tuned settings are the same, they are the default
        for seed, config in cell.trials.items()
    }


def show_search(searches: list[Suggestions], made: SearchReport, url: str) -> None:
    """Print how methods were tuned, the best suggestion of each, what stopping early saved, and all warnings."""
    space, whole = searches[0].space, made.tuning.sheet
    # without the last column: settings stand below, and would not fit
    show_sheet(replace(whole, heads=whole.heads[:-1], rows=[row[:-1] for row in whole.rows]))
    for search in searches:
        say(f"{search.arm.label}: {_best(search)}; {outcomes(search) or 'nothing done'}")
    ran, saved = sum(s.rounds_run for s in searches), sum(s.rounds_saved for s in searches)
    if ran:
        planned = sum(len(s.settled) * space.length(s.arm) for s in searches)
        each = f", each with {len(space.suggestion_seeds)} seeds" if len(space.suggestion_seeds) > 1 else ""
        say(f"rounds: {ran} of {planned} run{each}; ASHA saved {saved} ({100 * saved / planned:.0f} %)")
    for line in made.tuning.warnings:
        print_warning(line)
    say(f"to browse the suggestions: pip install optuna-dashboard && optuna-dashboard {shlex.quote(shown_url(url))}")


def _best(search: Suggestions) -> str:
    """Return the best suggestion of a method, in words."""
    best, space = search.best, search.space
    if not best or best.value is None:
        return "no suggestion ran all rounds yet"
    values = ", ".join(f"{key} = {value}" for key, value in best.params.items())
    return f"best {values} ({space.space.metric} {space.shown(best.value)})"


def outcomes(search: Suggestions) -> str:
    """Return how many suggestions had each outcome, in words."""
    counts = Counter(str(outcome(trial)) for trial in search.ended)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
