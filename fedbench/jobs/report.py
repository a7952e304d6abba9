"""Report stored trials: tables and plots again, beside the paper or another folder, and ranks over several studies."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from fedbench.analysis.differences import differences, trials_in
from fedbench.analysis.ranks import rank, study_scores, together
from fedbench.analysis.trials import stored_trials
from fedbench.base.errors import UserError
from fedbench.base.text import say
from fedbench.console.tables import show, show_check, show_comparison, show_differences, show_ranks
from fedbench.jobs.job import EVERYTHING
from fedbench.jobs.options import Selection
from fedbench.jobs.study import print_where, selected_studies, warn_about, written_report
from fedbench.render.report import write_ranks
from fedbench.render.study import StudyReport
from fedbench.store.store import Store


@dataclass(frozen=True)
class Reported:
    """A study's report; parity: its cells beside the paper's; comparison: its trials beside another folder's."""

    report: StudyReport
    parity: pd.DataFrame | None = None
    comparison: pd.DataFrame | None = None


def report_stored(selection: Selection, *, check: bool = False, compare: Path | None = None) -> list[Reported]:
    """Write and print the reports of stored trials.

    check: compare cells and claims with the paper's; compare: another results folder to compare trials with.
    """
    store = results_in("--out", selection.out, selection.name)
    studies = selected_studies(selection, store)
    other = results_in("--compare", compare, selection.name) if compare else None
    reports = []
    for study in studies:
        report = written_report(study, store)
        warn_about(store)
        show(report)
        parity = show_check(report, store) if check else None
        comparison = None
        if other:
            comparison = show_comparison(report, store, stored_trials(study, other))
            warn_about(other)
        if missing := len(study.trials) - len(report.trials):
            say(f"{missing} of {len(study.trials)} trials have not been run")
        reports.append(Reported(report, parity, comparison))
    print_where(store, studies)
    return reports


def compare_folders(selection: Selection, folders: Sequence[Path], tolerance: float | None) -> bool:
    """Print how the cells of studies differ between two folders; return whether any differs beyond the tolerance."""
    stores = [results_in("--compare", folder, selection.name) for folder in folders]
    differ, shared = False, 0
    for study in selected_studies(selection, stores[0]):
        trials = [trials_in(study, store) for store in stores]
        if not any(trials) and selection.name == EVERYTHING:
            continue
        compared = differences(study, *trials)
        show_differences(study, compared, folders, tolerance)
        differ, shared = differ or compared.beyond(tolerance) > 0, shared + compared.both
    for store in stores:
        warn_about(store)
    if not shared:
        both = " and ".join(map(str, folders))
        raise UserError(f"--compare: no trial of {selection.name} at scale {selection.scale} is in both {both}")
    return differ


def rank_studies(names: Sequence[str], selection: Selection) -> None:
    """Rank what is in all of the studies over all their cells; print the ranks, and write them to OUT/ranks."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--ranks: {twice[0]} stands twice; name it once")
    parts, store = [], results_in("--out", selection.out, names[0])
    for name in names:
        (study,) = selected_studies(replace(selection, name=name), store)
        scores = study_scores(study, stored_trials(study, store))
        warn_about(store)
        if scores is None:
            raise UserError(f"--ranks {name}: has no axis to rank along; its file may name one (ranks: AXIS)")
        parts.append((study, scores))
    if len(values := {scores.value for _, scores in parts}) > 1:
        raise UserError(f"--ranks {' '.join(names)}: ranked by different metrics ({', '.join(sorted(values))})")
    scores, elsewhere = together([scores for _, scores in parts])
    if len(scores.labels) < 2:
        raise UserError(f"--ranks {' '.join(names)}: fewer than two competitors are in all of them")
    ranks = rank(scores, elsewhere)
    if ranks is None:
        scale = selection.scale
        raise UserError(f"--ranks {' '.join(names)}: fewer than two competitors have results at scale {scale}")
    first = parts[0][0]
    folder = store.reports / "ranks" / "+".join(study.name for study, _ in parts) / first.scale / first.variant
    folder.mkdir(parents=True, exist_ok=True)
    show_ranks(ranks, f"{', '.join(study.study.title for study, _ in parts)} (scale {first.scale})")
    for path in write_ranks(ranks, folder):
        say(path)
    print_where(store)


def results_in(option: str, out: Path, study: str) -> Store:
    """Return the store in a folder that an option names; UserError if there is none."""
    store = Store(out)
    if not store.trials.is_dir():
        raise UserError(f"{option} {out}: holds no results; run python -m fedbench.study {study} first")
    return store
