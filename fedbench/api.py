"""The functions of fedbench: run, load, search, report and verify. Quick to import: they import the rest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from fedbench.base.errors import UserError, unknown
from fedbench.base.files import RESULTS
from fedbench.base.plugins import import_modules
from fedbench.base.signals import Interrupted
from fedbench.jobs.job import EVERYTHING, JobT, Outcome, carry_out, likely_unfinished
from fedbench.jobs.options import (
    SEARCH_PREFIX,
    RunKeywords,
    Selection,
    check_flags,
    check_verification,
    run_options,
    select,
)
from fedbench.specs.library import path_of
from fedbench.specs.names import SAMPLERS
from fedbench.tune.options import RunOptions

if TYPE_CHECKING:
    import pandas as pd

    from fedbench.render.results import Results
    from fedbench.specs.space import ScaledSpace

Modules = str | Sequence[str]
Seeds = str | int | Sequence[int]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class ReportResults:
    """What `report` has made of a study.

    results: as `run` returns them; files: all that was written; parity: cells beside the paper's numbers, with
    `check=True` at scale paper; comparison: trials beside those of another folder, with `compare`.
    """

    results: "Results"
    files: list[Path]
    parity: "pd.DataFrame | None" = None
    comparison: "pd.DataFrame | None" = None


@dataclass(frozen=True)
class SearchResults:
    """What a search has found.

    best: the settings of the best suggestion, by method, as `TrialConfig` takes them; table: a row for each method, its
    accuracy with default and with best settings; suggestions: a row for each suggestion; files: all that was written.
    """

    space: "ScaledSpace"
    best: dict[str, dict[str, Any]]
    table: "pd.DataFrame"
    suggestions: "pd.DataFrame"
    files: list[Path]


def run(
    study: str | Path,
    scale: str = "quick",
    out: str | Path = RESULTS,
    *,
    changes: Settings | None = None,
    set: Settings | None = None,
    only: Settings | None = None,
    seeds: Seeds | None = None,
    modules: Modules = (),
    dry_run: bool = False,
    fresh: bool = False,
    strict: bool = False,
    save_model: bool = False,
    **options: Unpack[RunKeywords],
) -> "Results":
    """Run the trials of a study that are not stored yet, print its tables, and return its results.

    study: a built-in name, or a YAML file; changes (or set): base settings to change, such as {"rounds": 20}; only:
    points of the axes to run, such as {"data.alpha": [100, 0.1]}; seeds: replace those of the study; modules: with
    methods and the like of your own; dry_run: only print what would be run; fresh: discard stored trials; save_model:
    store the final models; options: see `RunKeywords`.

    UserError is raised for wrong values, if trials are left, if no trial succeeded and, if `strict`, if any failed or
    diverged. Ctrl-C raises KeyboardInterrupt.
    """
    _check_names(run, options)
    check_flags(dry_run=dry_run, fresh=fresh, strict=strict, save_model=save_model)
    selection = _select("studies", study, scale, out, changes, set, only, seeds, modules)
    how = run_options(selection, options, save_model=save_model)

    def start() -> "Any":
        from fedbench.jobs.study import StudyJob

        return StudyJob(selection, how, fresh=fresh)

    outcome = _carried_out("run", start, selection, how, fresh, dry_run=dry_run, strict=strict)
    from fedbench.analysis.trials import stored_trials
    from fedbench.render.results import Results

    (expanded,) = outcome.job.studies
    return Results(expanded, stored_trials(expanded, outcome.job.store))


@overload
def load(
    study: str | Path,
    scale: str = ...,
    out: str | Path = ...,
    *,
    table: None = ...,
    changes: Settings | None = ...,
    only: Settings | None = ...,
    seeds: Seeds | None = ...,
) -> "Results": ...


@overload
def load(
    study: str | Path,
    scale: str = ...,
    out: str | Path = ...,
    *,
    table: Literal["rounds", "trials", "cells"],
    changes: Settings | None = ...,
    only: Settings | None = ...,
    seeds: Seeds | None = ...,
) -> "pd.DataFrame": ...


def load(
    study: str | Path,
    scale: str = "quick",
    out: str | Path = RESULTS,
    *,
    table: Literal["rounds", "trials", "cells"] | None = None,
    changes: Settings | None = None,
    only: Settings | None = None,
    seeds: Seeds | None = None,
) -> "Results | pd.DataFrame":
    """Return the stored results of a study, as `run` returns them; UserError if there are none.

    `changes`, `only` and `seeds` are those of `run`; `table` names a frame of the results to return alone.
    """
    from fedbench.analysis.trials import stored_trials
    from fedbench.jobs.study import selected_studies
    from fedbench.render.results import Results
    from fedbench.store.store import Store

    selection = _select("studies", study, scale, out, changes, None, only, seeds, ())
    (expanded,) = selected_studies(selection)
    stored = stored_trials(expanded, Store(selection.out))
    if not stored:
        raise UserError(f"{out}: holds no trial of {study} at scale {scale}; run it first")
    results = Results(expanded, stored)
    return results if table is None else getattr(results, table)


def search(
    space: str | Path,
    scale: str = "quick",
    out: str | Path = RESULTS,
    *,
    trials: int | None = None,
    sampler: str = "tpe",
    scheduler: Literal["asha", "none"] = "asha",
    storage: str | None = None,
    changes: Settings | None = None,
    set: Settings | None = None,
    only: Settings | None = None,
    seeds: Seeds | None = None,
    modules: Modules = (),
    dry_run: bool = False,
    fresh: bool = False,
    strict: bool = False,
    **options: Unpack[RunKeywords],
) -> "SearchResults | None":
    """Search for the best settings of methods, print them, and return what was found; None for a dry run.

    space: a built-in name, or a YAML file; trials: suggestions for each method, in total with stored ones; sampler:
    tpe, random or cmaes; scheduler: asha stops suggestions that fall behind; storage: URL of Optuna's storage; only:
    methods to search, such as {"method": ["FedAvg", "FedLAW"]}; seeds: of the table's runs; fresh: forget stored
    suggestions. All else, and what is raised, is as for `run`.
    """
    _check_names(search, options)
    check_flags(dry_run=dry_run, fresh=fresh, strict=strict)
    for name, value, known in (("sampler", sampler, SAMPLERS), ("scheduler", scheduler, ("asha", "none"))):
        if value not in known:
            raise UserError(unknown(name, value, known))
    selection = _select("search_spaces", space, scale, out, changes, set, only, seeds, modules)
    how = run_options(selection, options, prefix=SEARCH_PREFIX)

    def start() -> "Any":
        from fedbench.jobs.search import SearchJob, SearchOptions

        return SearchJob(selection, how, SearchOptions(trials, sampler, scheduler == "asha", storage), fresh=fresh)

    job = _carried_out("search", start, selection, how, fresh, dry_run=dry_run, strict=strict).job
    if dry_run:
        return None
    from fedbench.searches.report import trials_frame

    best = {each.arm.label: each.arm.settings(each.best.params) for each in job.searches if each.best}
    return SearchResults(job.space, best, job.made.table, trials_frame(job.searches), job.made.files)


def report(
    study: str | Path,
    scale: str = "quick",
    out: str | Path = RESULTS,
    *,
    check: bool = False,
    compare: str | Path | None = None,
    changes: Settings | None = None,
    set: Settings | None = None,
    only: Settings | None = None,
    seeds: Seeds | None = None,
    modules: Modules = (),
) -> ReportResults:
    """Write the tables, plots and page of stored trials again, print the tables, and return what was made.

    check: compare cells and claims with the paper's; compare: another results folder to compare trials with. All else
    is as for `run`.
    """
    check_flags(check=check)
    selection = _select("studies", study, scale, out, changes, set, only, seeds, modules)
    from fedbench.jobs.report import report_stored
    from fedbench.render.results import Results

    (made,) = report_stored(selection, check=check, compare=Path(compare) if compare else None)
    return ReportResults(Results(made.study, made.report.trials), made.report.files, made.parity, made.comparison)


def verify(
    results: str | Path = "published",
    trials: int = 1,
    seed: int = 0,
    *,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    modules: Modules = (),
    dry_run: bool = False,
) -> "pd.DataFrame":
    """Pick trials of a results folder at random, run them again, and return a row for each: how well it agrees.

    seed: picks the trials; out: a folder to store the runs in, and to continue with (default: a temporary folder);
    dry_run: only print which would be run. Columns: `hash`, `trial` (its name), `ours` and `published` (final scores in
    percent), `difference`, `tolerance` (points), `verdict` (equal, close or differs), `reason` (of a failure).
    """
    check_flags(dry_run=dry_run)
    folder, store, data = Path(results), Path(out) if out else None, Path(data_dir) if data_dir else None
    check_verification(folder, trials, store)
    import_modules([modules] if isinstance(modules, str) else modules)
    import pandas as pd

    from fedbench.jobs.published import Verified
    from fedbench.jobs.published import verify as verify_trials

    rows = verify_trials(folder, trials, seed, out=store, data_dir=data, dry_run=dry_run)
    return pd.DataFrame(rows, columns=list(Verified._fields))


def _check_names(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise UserError for a keyword that neither a function nor `RunKeywords` has."""
    known = {*signature(function).parameters, *RunKeywords.__annotations__} - {"options"}
    for name in options:
        if name not in known:
            raise UserError(unknown("option", name, known))


def _select(
    folder: str,
    name: str | Path,
    scale: str,
    out: str | Path,
    changes: Settings | None,
    set: Settings | None,
    only: Settings | None,
    seeds: Seeds | None,
    modules: Modules,
) -> Selection:
    """Return a selection of one study or space; modules are imported first, since it may use what they register."""
    if str(name) == EVERYTHING:
        raise UserError("'all' is many studies; run one after the other")
    if set is not None:
        changes = {**changes, **set} if changes and isinstance(set, Mapping) else set
    selection = select(name, scale, out, changes=changes, only=only, seeds=seeds, modules=modules)
    import_modules(selection.modules)
    path_of(folder, selection.name, "study" if folder == "studies" else "search space")
    return selection


def _carried_out(
    function: str,
    start: Callable[[], JobT],
    selection: Selection,
    how: RunOptions,
    fresh: bool,
    *,
    dry_run: bool,
    strict: bool,
) -> Outcome[JobT]:
    """Carry out a job in this process; raise what `run` promises if it did not succeed."""
    resume = f"to go on, call fedbench.{function} again"
    likely = likely_unfinished(selection, search=function == "search", fresh=fresh)
    outcome = carry_out(start, how, resume, likely=likely, dry_run=dry_run, strict=strict)
    if outcome.stopped:
        raise Interrupted(outcome.stopped)
    if outcome.left:
        raise UserError(f"{selection.name}: {outcome.left} left; {resume}")
    if outcome.failed:
        raise UserError(f"{selection.name}: trials failed or diverged, see above; fedbench.load returns what is stored")
    return outcome
