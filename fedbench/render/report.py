"""Write the report of a study: tables, plots, and the page that shows them, from stored trials alone."""

import gzip
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fedbench.analysis.beside import noted
from fedbench.analysis.claims import claims_frame
from fedbench.analysis.clients import TABLE, clients_frame
from fedbench.analysis.comparisons import comparisons_frame
from fedbench.analysis.ranks import Ranks, ranks_frame
from fedbench.analysis.tables import cells_frame, layout
from fedbench.analysis.trials import rounds_frame, stored_trials, trials_frame
from fedbench.analysis.variance import variance_frame
from fedbench.base.files import write_bytes, write_text
from fedbench.base.plugins import described
from fedbench.render.figures import FORMATS, draw
from fedbench.render.pages.content import Live, StudyPage, study_page
from fedbench.render.pages.index import INDEX, StudySummary, write_index, write_summary
from fedbench.render.pages.render import RELOAD, rendered
from fedbench.render.rank_plot import STEM, draw_ranks
from fedbench.render.sheets import Sheet, latex, markdown
from fedbench.render.study import PAGE, StudyReport, StudyTable, Tuning, analyse, file_stem, folder_of
from fedbench.render.variance_plot import VARIANCE_STEM, draw_variance
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import DamagedError, Store, read_rounds

CLIENTS_FILE = "client_accuracy.csv.gz"
LINKED = (".yaml", ".csv", ".md")  # files of a search that the index links to


def make_report(study: ScaledStudy, store: Store, tuning: Tuning | None = None) -> StudyReport:
    """Write everything that docs/outputs.md lists for a study into its folder, and return it.

    tuning: what the search has found whose result the study is.
    Entries that are found to be damaged meanwhile are left out like those that were damaged before.
    """
    while True:
        try:
            return _make_report(study, store, tuning)
        except DamagedError as error:
            store.leave_out(error)


def _make_report(study: ScaledStudy, store: Store, tuning: Tuning | None) -> StudyReport:
    trials = stored_trials(study, store)
    read_rounds(trials.values())
    folder = folder_of(study, store)
    folder.mkdir(parents=True, exist_ok=True)
    report = replace(analyse(study, trials), tuning=tuning)
    files = report.files
    files.append(_write_csv(folder / "cells.csv", cells_frame(study, report.tables)))
    for table in report.all_tables:
        files += _write_table(table, report.remarks, folder)
    if report.claims_sheet:
        files.append(_write_csv(folder / "claims.csv", claims_frame(report.findings)))
        files.append(write_text(folder / "claims.md", markdown(report.claims_sheet)))
    if report.comparisons:
        files.append(_write_csv(folder / "comparisons.csv", comparisons_frame(report.comparisons)))
    if report.ranks:
        files += write_ranks(report.ranks, folder)
    if report.variance_sheet:
        files += _write_variance(report, report.variance_sheet, folder)
    files.append(_write_csv(folder / "trials.csv", trials_frame(study, trials)))
    files.append(_write_csv(folder / "rounds.csv.gz", rounds_frame(study, trials)))
    each_client = clients_frame(study, trials)
    if len(each_client):
        files.append(_write_csv(folder / CLIENTS_FILE, each_client))
    for name, spec in study.study.plots.items():
        try:
            files += draw(study, trials, spec, folder / name)
        except DamagedError:
            raise
        except Exception as error:  # one picture is no reason to lose the others
            warnings.warn(f"plot '{name}' cannot be drawn ({described(error)})", stacklevel=2)
    for old in {folder / name for name in _possible(study)} - set(files):
        old.unlink(missing_ok=True)  # of an earlier report, with other options
    files += tuning.files if tuning else ()
    files += write_pages(report, folder, store)
    return report


def _write_csv(path: Path, frame: pd.DataFrame) -> Path:
    """Write a data frame as CSV, compressed if the path says so, with the same bytes every time; return the path."""
    content = frame.to_csv(index=False).encode()
    return write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def write_ranks(ranks: Ranks, folder: Path) -> list[Path]:
    """Write ranks.csv, and the diagram of mean ranks; return the paths."""
    return [_write_csv(folder / "ranks.csv", ranks_frame(ranks)), *draw_ranks(ranks, folder)]


def _write_variance(report: StudyReport, sheet: Sheet, folder: Path) -> list[Path]:
    """Write the variance components as CSV, Markdown, LaTeX and stacked bars; return the paths."""
    path = folder / VARIANCE_STEM
    return [
        _write_csv(path.with_suffix(".csv"), variance_frame(report.variance)),
        *_write_sheet(sheet, report.study, "variance", path),
        *draw_variance(report.variance, folder),
    ]


def _write_table(table: StudyTable, remarks: Sequence[str], folder: Path) -> list[Path]:
    """Write a table as CSV, Markdown and LaTeX; return the paths."""
    spec, path = table.study.study.tables[table.name], folder / table.stem
    frame, sheet = layout(spec, table.cells, *noted(spec, table.cells)), table.sheet.with_remarks(remarks)
    return [_write_csv(path.with_suffix(".csv"), frame), *_write_sheet(sheet, table.study, table.name, path)]


def _write_sheet(sheet: Sheet, study: ScaledStudy, name: str, path: Path) -> list[Path]:
    label = f"{study.name} {study.scale} {study.variant} {name}"
    return [
        write_text(path.with_suffix(".md"), markdown(sheet)),
        write_text(path.with_suffix(".tex"), latex(sheet, label)),
    ]


def _possible(study: ScaledStudy) -> list[str]:
    """Return the names of all files that a report may write."""
    stems = [TABLE, *(file_stem(study, name) for name in study.study.tables)]
    tables = [f"{stem}.{ending}" for stem in stems for ending in ("csv", "md", "tex")]
    return [
        *tables,
        "claims.csv",
        "claims.md",
        "comparisons.csv",
        "ranks.csv",
        CLIENTS_FILE,
        "check.csv",
        "compare.csv",
        *(f"{VARIANCE_STEM}.{ending}" for ending in ("csv", "md", "tex")),
        *(f"{n}.{e}" for n in (STEM, VARIANCE_STEM, *study.study.plots) for e in FORMATS),
    ]


def write_pages(report: StudyReport, folder: Path, store: Store, live: Live | None = None) -> list[Path]:
    """Write report.json and report.html into the folder of a report and return their paths; then write the index."""
    up = os.path.relpath(store.reports / INDEX, folder)
    page = study_page(report, folder, store.out, up=up, live=live)
    reload = RELOAD if live and live.running else 0
    summary = write_summary(_summary(report.study, page, report.tuning), folder)
    files = [summary, rendered("study.html", folder / PAGE, reload, page=page)]
    write_index(store.reports)
    return files


def _summary(study: ScaledStudy, page: StudyPage, tuning: Tuning | None) -> StudySummary:
    """Return what the index shows of a study."""
    running = page.live is not None and page.live.running
    state = "running" if running else "unfinished" if page.counts.get("not run") else "finished"
    return StudySummary(
        title=page.title,
        name=page.name,
        scale=page.scale,
        variant=study.variant,
        trials=len(study.trials),
        counts=page.counts,
        claims=page.verdicts,
        ranks=page.ranks.ranks.sentence if page.ranks else "",
        state=state,
        share=page.live.share if page.live else 1.0,
        suggestions=tuning.suggestions if tuning else 0,
        best=tuning.best if tuning else {},
        warnings=tuning.warnings if tuning else (),
        files=[path.name for path in tuning.files if path.suffix in LINKED] if tuning else (),
    )
