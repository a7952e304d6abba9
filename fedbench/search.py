"""A search over settings from the command line: python -m fedbench.search fixed_gamma --trials 12."""

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from fedbench.base.errors import UserError
from fedbench.base.plugins import import_modules
from fedbench.base.settings import parse_assignments
from fedbench.config.trial import TrialConfig
from fedbench.searches.report import SearchReport, caption, compare, final_trials, make_search_report, shown_table
from fedbench.searches.suggestions import (
    SAMPLERS,
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
from fedbench.specs.parameters import corners
from fedbench.specs.space import ScaledSpace, expand_space, space_files
from fedbench.store.store import Store
from fedbench.study import warn
from fedbench.terminal.command import DONE, FAILED, INTERRUPTED, Parser, run
from fedbench.terminal.estimate import estimate
from fedbench.terminal.options import (
    add_conduct_options,
    add_list_options,
    add_run_options,
    add_study_options,
    check_resources,
    chosen_seeds,
    run_options,
    slots,
)
from fedbench.terminal.progress import clock


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.search", description="Search for the best settings of methods.")
    add = options.add_argument
    add("space", nargs="?", metavar="NAME|FILE", help="a built-in search space, or a YAML file of your own")
    add_list_options(options, "search spaces")
    add("--trials", type=int, metavar="N", help="suggestions for each method, in total with those that there are")
    add("--sampler", choices=SAMPLERS, default="tpe", help="how Optuna chooses (tpe)")
    add("--scheduler", choices=("asha", "none"), default="asha", help="asha stops what falls behind (asha)")
    add("--storage", metavar="URL", help="Optuna's storage (an SQLite file under --out)")
    add_study_options(options)
    add_conduct_options(
        options,
        fresh="forget the suggestions of this search and start over",
        strict="suggestion or run of the table",
    )
    add_run_options(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    import_modules(options.modules)
    if options.json and not options.list:
        raise UserError("--json: goes with --list")
    if options.list:
        return list_spaces(options.json)
    if not options.space:
        raise UserError(f"name a search space: {', '.join(space_files())}, or a YAML file")
    check_resources(options)
    space, store = chosen_space(options), Store(options.out)
    folder = options.out / "searches" / space.name / space.scale
    url = options.storage or default_url(folder)
    parse_url(url)
    if options.dry_run:
        return show_estimate(space, store, url, options)
    check_data(all_configs(space), options.data_dir)
    storage = open_storage(url) if options.storage else None
    store.prepare()
    with sole_driver(folder):
        storage = storage or open_storage(url)
        if options.fresh:
            forget(storage, space)
        searches = [Suggestions.open(storage, space, arm) for arm in space.arms]
        interrupted = search(searches, store, options)
        # Who stops a search does not want to wait for plots.
        report = make_search_report(searches, store, folder, plots=not interrupted)
    warn(store)
    show(searches, report, url)
    return verdict(searches, store, options.strict, interrupted, arguments)


def search(searches: Sequence[Suggestions], store: Store, options: argparse.Namespace) -> bool:
    """Put back what was left unfinished and run what is missing; returns whether Ctrl-C ended it."""
    again = sum(own.reclaim(crashed=True) for own in searches)
    announce(searches[0].space, searches, again)
    try:
        run_missing(searches, store, options)
    except KeyboardInterrupt:
        return True
    return False


def chosen_space(options: argparse.Namespace) -> ScaledSpace:
    """The space that the options name, checked together with the options that depend on it."""
    if options.trials is not None and options.trials < 1:
        raise UserError(f"--trials {options.trials}: must be at least 1")
    only: list[str] = []
    for text in options.only:
        key, _, values = text.partition("=")
        if key != "method" or not values:
            raise UserError(f"--only {text}: a search is picked by method, such as --only method=FedAvg,FedLAW")
        only += values.split(",")
    seeds = chosen_seeds(options)
    changes = parse_assignments(options.set)
    space = expand_space(
        options.space, options.scale, changes=changes, only=only or None, seeds=seeds, trials=options.trials
    )
    for arm in space.arms:
        check_sampler(options.sampler, arm)
    return space


def all_configs(space: ScaledSpace) -> list[TrialConfig]:
    """Configs that need all data and partitions that the search will need, as far as can be known."""
    found: list[TrialConfig] = []
    for arm in space.arms:
        for settings in corners(arm.fixed, arm.parameters):
            found += [*space.suggestion(settings), *space.final(settings).values()]
    return found


def announce(space: ScaledSpace, searches: Sequence[Suggestions], again: int) -> None:
    """The first line: what is searched, and how much of it is done."""
    done, total = sum(min(len(s.settled), space.trials) for s in searches), space.trials * len(searches)
    methods = f"{len(searches)} methods, " if len(searches) > 1 else ""
    left = f"; {again} that were interrupted or failed are run again" if again else ""
    print(f"{space.title}: {methods}{total} suggestions, {done} of them done{left}", flush=True)


def run_missing(searches: Sequence[Suggestions], store: Store, options: argparse.Namespace) -> None:
    """Run what is left, suggestions first, then the table, on one Ray; if nothing is, Ray is not even imported."""
    if not any(search.left for search in searches):
        run_final(searches, store, options)
        return
    from fedbench.tune.runner import cluster

    with cluster(run_options(options)):
        for search in searches:
            if search.left:
                run_suggestions(search, options)
        run_final(searches, store, options)


def run_suggestions(search: Suggestions, options: argparse.Namespace) -> None:
    """Run what the budget of one method has left."""
    from fedbench.tune.progress import SearchProgress
    from fedbench.tune.search import search_arm

    space, done, early = search.space, len(search.settled), options.scheduler == "asha"
    rounds = space.length(search.arm)
    with SearchProgress(search.arm.label, done, space.trials, rounds, space.shown, Console()) as progress:
        search_arm(search, run_options(options), sampler=options.sampler, stop_early=early, progress=progress)


def run_final(searches: Sequence[Suggestions], store: Store, options: argparse.Namespace) -> None:
    """Run what the table needs and the store does not have yet: default and best settings, over all seeds."""
    wanted = final_trials(compare(searches))
    stored = {hash_: store.get(hash_) for hash_ in wanted}
    missing = {h: config for h, config in wanted.items() if (trial := stored[h]) is None or trial.status == "failed"}
    if not missing:
        return
    from fedbench.tune.progress import StudyProgress
    from fedbench.tune.runner import run_trials

    print(f"table: {len(wanted)} runs, {len(wanted) - len(missing)} of them done", flush=True)
    with StudyProgress(missing, Console()) as progress:
        run_trials(f"table-{searches[0].space.name}", missing, run_options(options), progress)


def show(searches: Sequence[Suggestions], report: SearchReport, url: str) -> None:
    """Print the table, what was found, what stopping early saved, and where everything is."""
    space = searches[0].space
    frame = shown_table(report.table).drop(columns="tuned settings")  # they stand below, and would not fit
    table = Table(title=caption(space), title_justify="left", show_lines=True)
    for column in frame.columns:
        table.add_column(column, overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*row)
    Console().print(table)
    for search in searches:
        best = search.best
        found = "no suggestion ran all rounds yet"
        if best and best.value is not None:
            values = ", ".join(f"{key} = {value}" for key, value in best.params.items())
            found = f"best {values} ({space.space.metric} {space.shown(best.value)})"
        print(f"{search.arm.label}: {found}; {outcomes(search) or 'nothing done'}")
    counts = [len(search.settled) for search in searches]
    if min(counts) < max(counts):
        print(f"not a fair comparison: methods have between {min(counts)} and {max(counts)} suggestions")
    ran, saved = sum(s.rounds_run for s in searches), sum(s.rounds_saved for s in searches)
    if ran:
        whole = sum(len(s.settled) * space.length(s.arm) for s in searches)
        each = f", each with {len(space.suggestion_seeds)} seeds" if len(space.suggestion_seeds) > 1 else ""
        print(f"rounds: {ran} of {whole} run{each}; ASHA saved {saved} ({100 * saved / whole:.0f} %)")
    for path in report.files:
        print(path)
    print(f"to browse the suggestions: pip install optuna-dashboard && optuna-dashboard {shlex.quote(shown_url(url))}")


def outcomes(search: Suggestions) -> str:
    """How many suggestions ended how."""
    found = Counter(str(outcome(trial)) for trial in search.ended)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))


def verdict(
    searches: Sequence[Suggestions], store: Store, strict: bool, interrupted: bool, arguments: Sequence[str]
) -> int:
    """The exit code, and how to go on if something is left."""
    wanted = final_trials(compare(searches))
    trials = [store.get(hash_) for hash_ in wanted]
    left = sum(search.left for search in searches)
    runs = sum(trial is None for trial in trials)
    if interrupted or left or runs:
        command = shlex.join(["python", "-m", "fedbench.search", *(a for a in arguments if a != "--fresh")])
        print(f"{left} suggestions and {runs} runs of the table are left; go on with: {command}", file=sys.stderr)
        return INTERRUPTED if interrupted else FAILED
    bad = [trial for search in searches for trial in search.settled if outcome(trial) not in ("done", "stopped")]
    wrong = [trial for trial in trials if trial and trial.status != "done"]
    nothing = not any(search.best for search in searches) or len(wrong) == len(trials)
    return FAILED if nothing or (strict and (bad or wrong)) else DONE


def show_estimate(space: ScaledSpace, store: Store, url: str, options: argparse.Namespace) -> int:
    """Print what is left to do, and roughly what it costs (without what stopping early saves)."""
    configs: list[TrialConfig] = []
    storage = open_storage(url) if is_there(url) and not options.fresh else None
    for arm in space.arms:
        known = storage and is_known(storage, space, arm)
        left = Suggestions.open(storage, space, arm).left if storage and known else space.trials
        print(f"{arm.label}: {left} of {space.trials} suggestions to run over {', '.join(map(str, arm.parameters))}")
        configs += space.suggestion(arm.fixed) * left + list(space.final(arm.fixed).values()) * 2
    cost = estimate(configs, store)
    at_once = slots(options)
    print(f"{len(space.suggestion_seeds)} runs a suggestion, {at_once} suggestions at a time on this machine's CPUs")
    print(f"time: at most about {clock(cost.seconds / at_once)} ({clock(cost.seconds)} on one worker; {cost.source})")
    print(f"memory: about {cost.memory * len(space.suggestion_seeds) / 2**20:.0f} MiB for a suggestion")
    return DONE


def list_spaces(as_json: bool) -> int:
    """Print the built-in spaces: name, what it tunes, methods, suggestions for each at every scale."""
    found: list[dict[str, Any]] = []
    for name in space_files():
        scaled = {scale: expand_space(name, scale, changes={}) for scale in ("quick", "paper")}
        budget = {scale: space.trials for scale, space in scaled.items()}
        methods = [arm.label for arm in scaled["quick"].arms]
        found.append({"name": name, "tunes": scaled["quick"].space.tunes, "methods": methods, **budget})
    if as_json:
        print(json.dumps(found, indent=2))
        return DONE
    table = Table("space", "tunes", "methods", "quick", "paper")
    for row in found:
        table.add_row(row["name"], row["tunes"], ", ".join(row["methods"]), str(row["quick"]), str(row["paper"]))
    Console().print(table)
    return DONE


if __name__ == "__main__":
    run(main)
