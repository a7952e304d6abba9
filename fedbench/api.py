"""The functions of fedbench: run, load, search, report and verify. Quick to import: they import the rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from fedbench.base.errors import UserError, unknown
from fedbench.base.files import RESULTS
from fedbench.base.plugins import import_modules
from fedbench.base.signals import Interrupted
from fedbench.jobs.job import EVERYTHING, JobT, carry_out
from fedbench.jobs.options import (
    Request,
    RunKeywords,
    Selection,
    SelectKeywords,
    StudyKeywords,
    check_flag,
    check_verification,
    request,
    select,
)
from fedbench.specs.library import path_of
from fedbench.specs.names import SAMPLERS

if TYPE_CHECKING:
    import pandas as pd

    from fedbench.render.results import Results
    from fedbench.specs.space import ScaledSpace


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
    accuracy with default and with best settings; suggestions: a row for each suggestion; files: all that was written;
    results: those of the study with the axes `method` and `settings` (default, tuned), as `run` returns them.
    """

    space: "ScaledSpace"
    best: dict[str, dict[str, Any]]
    table: "pd.DataFrame"
    suggestions: "pd.DataFrame"
    files: list[Path]
    results: "Results"


def run(
    study: str | Path,
    scale: str = "quick",
    out: str | Path = RESULTS,
    *,
    save_model: bool = False,
    **keywords: Unpack[StudyKeywords],
) -> "Results":
    """Run the trials of a study that are not stored yet, print its tables, and return its results.

    study: a built-in name, or a YAML file; save_model: store the final models; further keywords: see
    `fedbench.jobs.options.StudyKeywords`.

    UserError is raised for wrong values, if trials are left, if no trial succeeded and, if `strict`, if any failed or
    diverged. Ctrl-C raises KeyboardInterrupt.
    """
    wanted = request(study, scale, out, keywords, save_model=save_model)

    def start(wanted: Request) -> "Any":
        from fedbench.jobs.study import StudyJob

        return StudyJob(wanted)

    job = _carried_out("run", "studies", start, wanted)
    from fedbench.analysis.trials import stored_trials
    from fedbench.render.results import Results

    (expanded,) = job.studies
    return Results(expanded, stored_trials(expanded, job.store))


@overload
def load(
    study: str | Path,
    scale: str = ...,
    out: str | Path = ...,
    *,
    table: None = ...,
    **keywords: Unpack[SelectKeywords],
) -> "Results": ...


@overload
def load(
    study: str | Path,
    scale: str = ...,
    out: str | Path = ...,
    *,
    table: Literal["rounds", "trials", "cells"],
    **keywords: Unpack[SelectKeywords],
) -> "pd.DataFrame": ...


def load(
    study: str | Path,
    scale: str = "quick",
    out: str | Path = RESULTS,
    *,
    table: Literal["rounds", "trials", "cells"] | None = None,
    **keywords: Unpack[SelectKeywords],
) -> "Results | pd.DataFrame":
    """Return the stored results of a study, as `run` returns them; UserError if there are none.

    table: a frame of the results to return alone; further keywords: see `fedbench.jobs.options.SelectKeywords`.
    """
    selection = select(study, scale, out, keywords)
    _check_name(selection, "studies")
    from fedbench.analysis.trials import stored_trials
    from fedbench.base.settings import in_words
    from fedbench.jobs.study import selected_studies
    from fedbench.render.results import Results
    from fedbench.store.store import Store

    store = Store(selection.out)
    (expanded,) = selected_studies(selection, store)
    stored = stored_trials(expanded, store)
    if not stored:
        picked = "".join(f", {words}" for words in [*in_words(expanded.changed), *expanded.picked])
        raise UserError(f"{out}: holds no trial of {study} at scale {scale}{picked}; run it first")
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
    **keywords: Unpack[RunKeywords],
) -> "SearchResults | None":
    """Search for the best settings of methods, print them, and return what was found; None for a dry run.

    space: a built-in name, or a YAML file; trials: suggestions for each method, in total with stored ones; sampler:
    tpe, random or cmaes; scheduler: asha stops suggestions that fall behind; storage: URL of Optuna's storage. All
    else, and what is raised, is as for `run`.
    """
    wanted = request(space, scale, out, keywords, search=True)
    for name, value, known in (("sampler", sampler, SAMPLERS), ("scheduler", scheduler, ("asha", "none"))):
        if value not in known:
            raise UserError(unknown(name, value, known))

    def start(wanted: Request) -> "Any":
        from fedbench.jobs.search import SearchJob, SearchOptions

        return SearchJob(wanted, SearchOptions(trials, sampler, scheduler == "asha", storage))

    job = _carried_out("search", "search_spaces", start, wanted)
    if wanted.dry_run:
        return None
    from fedbench.render.results import Results
    from fedbench.searches.report import suggestions_frame

    best = {each.arm.label: each.arm.settings(each.best.params) for each in job.searches if each.best}
    made = job.made
    results = Results(made.study, made.report.trials)
    return SearchResults(job.space, best, made.table, suggestions_frame(job.searches), made.files, results)


def report(
    study: str | Path,
    scale: str = "quick",
    out: str | Path = RESULTS,
    *,
    check: bool = False,
    compare: str | Path | None = None,
    **keywords: Unpack[SelectKeywords],
) -> ReportResults:
    """Write the tables, plots and page of stored trials again, print the tables, and return what was made.

    check: compare cells and claims with the paper's; compare: another results folder to compare trials with; further
    keywords: see `fedbench.jobs.options.SelectKeywords`.
    """
    check_flag("check", check)
    selection = select(study, scale, out, keywords)
    _check_name(selection, "studies")
    from fedbench.jobs.report import report_stored
    from fedbench.render.results import Results

    (made,) = report_stored(selection, check=check, compare=Path(compare) if compare else None)
    results = Results(made.report.study, made.report.trials)
    return ReportResults(results, made.report.files, made.parity, made.comparison)


def verify(
    results: str | Path = "published",
    trials: int = 1,
    seed: int = 0,
    *,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    modules: Sequence[str] = (),
    dry_run: bool = False,
) -> "pd.DataFrame":
    """Pick trials of a results folder at random, run them again, and return a row for each: how well it agrees.

    seed: picks the trials; out: a folder to store the runs in, and to continue with (default: a temporary folder);
    modules: with methods and the like of your own; dry_run: only print which would be run. Columns: `hash`, `trial`
    (its name), `ours` and `published` (final scores in percent), `difference`, `tolerance` (points), `verdict` (equal,
    close or differs), `reason` (of a failure).
    """
    check_flag("dry_run", dry_run)
    folder, store, data = Path(results), Path(out) if out else None, Path(data_dir) if data_dir else None
    check_verification(folder, trials, store)
    import_modules(modules)
    import pandas as pd

    from fedbench.jobs.published import Verified
    from fedbench.jobs.published import verify as verify_trials

    rows = verify_trials(folder, trials, seed, out=store, data_dir=data, dry_run=dry_run)
    return pd.DataFrame(rows, columns=list(Verified._fields))


def _check_name(selection: Selection, folder: str) -> None:
    """Import modules, which the file may need, then raise UserError if there is no such file in a folder."""
    import_modules(selection.modules)
    if selection.name == EVERYTHING:
        raise UserError("'all' is many studies; run one after the other")
    path_of(folder, selection.name, "study" if folder == "studies" else "search space")


def _carried_out(function: str, folder: str, start: Callable[[Request], JobT], wanted: Request) -> JobT:
    """Carry out a job in this process; raise what `run` promises if it did not succeed."""
    _check_name(wanted.selection, folder)
    resume, name = f"to go on, call fedbench.{function} again", wanted.selection.name
    outcome = carry_out(start, wanted, resume)
    if outcome.stopped:
        raise Interrupted(outcome.stopped)
    if outcome.left:
        raise UserError(f"{name}: {outcome.left} left; {resume}")
    if outcome.failed:
        raise UserError(f"{name}: trials failed or diverged, see above; fedbench.load returns what is stored")
    return outcome.job
