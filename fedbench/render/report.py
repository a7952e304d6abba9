"""A study's output folder: tables and plots, made from the store alone."""

import gzip
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedbench.analysis.beside import noted
from fedbench.analysis.claims import Finding, check_claims, claims_frame
from fedbench.analysis.clients import TABLE, ClientsTable, clients_frame, clients_table
from fedbench.analysis.ranks import Ranks, ranks_frame, study_ranks
from fedbench.analysis.tables import Place, Tables, cells_frame, fill_tables, layout
from fedbench.analysis.trials import mixed, rounds_frame, stored_trials, trials_frame
from fedbench.analysis.variance import VarianceRow, study_variance, variance_frame
from fedbench.base.files import write_bytes, write_text
from fedbench.base.plugins import described
from fedbench.render.figures import FORMATS, draw
from fedbench.render.rank_plot import STEM, draw_ranks
from fedbench.render.sheets import latex, markdown
from fedbench.render.shown import claims_sheet, sheet
from fedbench.render.variance import VARIANCE_STEM, draw_variance, variance_sheet
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import DamagedError, Store, StoredTrial, read_rounds

CLIENTS_FILE = "client_accuracy.csv.gz"


@dataclass(frozen=True)
class Report:
    """What was made of a study."""

    tables: Tables
    files: list[Path]
    trials: dict[str, StoredTrial]
    findings: list[Finding]
    ranks: Ranks | None = None
    variance: Sequence[VarianceRow] = ()
    clients: ClientsTable | None = None


def make_report(study: ScaledStudy, store: Store) -> Report:
    """Write OUT/studies/NAME/SCALE: cells, claims and rounds, every table as CSV, Markdown and LaTeX, every plot.

    And report.html, the page that shows them all. OUT is the store's folder for reports. Entries that are damaged
    meanwhile are left out like those that were before.
    """
    while True:
        try:
            return _make_report(study, store)
        except DamagedError as error:
            store.leave_out(error)


def _make_report(study: ScaledStudy, store: Store) -> Report:
    trials = stored_trials(study, store)
    read_rounds(trials.values())
    folder = folder_of(study, store)
    folder.mkdir(parents=True, exist_ok=True)
    tables = fill_tables(study, trials)
    files = [write_text(folder / "cells.csv", cells_frame(study, tables).to_csv(index=False))]
    remarks = mixed(trials)
    for name, filled in tables.items():
        if filled:  # --only may have left none of its places
            files += _write_table(study, name, filled, folder / _stem(study, name), remarks)
    findings = check_claims(study, trials)
    if findings:
        files.append(write_text(folder / "claims.csv", claims_frame(findings).to_csv(index=False)))
        files.append(write_text(folder / "claims.md", markdown(claims_sheet(study, findings))))
    ranks = study_ranks(study, trials)
    if ranks:
        files += write_ranks(ranks, folder)
    variance = study_variance(study, trials)
    if variance:
        files += write_variance(study, variance, folder)
    files.append(write_text(folder / "trials.csv", trials_frame(study, trials).to_csv(index=False)))
    rounds = gzip.compress(rounds_frame(study, trials).to_csv(index=False).encode(), mtime=0)
    files.append(write_bytes(folder / "rounds.csv.gz", rounds))
    each_client = clients_frame(study, trials)
    if len(each_client):
        content = gzip.compress(each_client.to_csv(index=False).encode(), mtime=0)
        files.append(write_bytes(folder / CLIENTS_FILE, content))
    clients = clients_table(study, trials)
    if clients:
        files += _write_table(clients.study, TABLE, clients.filled, folder / TABLE, remarks)
    for name, spec in study.study.plots.items():
        try:
            files += draw(study, trials, spec, folder / name)
        except DamagedError:
            raise
        except Exception as error:  # one picture is no reason to lose the others
            warnings.warn(f"plot '{name}' cannot be drawn ({described(error)})", stacklevel=2)
    for old in {folder / name for name in _possible(study)} - set(files):
        old.unlink(missing_ok=True)  # of an earlier report, with other options
    report = Report(tables, files, trials, findings, ranks, variance, clients)
    return replace(report, files=[*files, *_write_pages(study, report, folder, store)])


def write_ranks(ranks: Ranks, folder: Path) -> list[Path]:
    """ranks.csv, and the diagram of mean ranks."""
    return [write_text(folder / "ranks.csv", ranks_frame(ranks).to_csv(index=False)), *draw_ranks(ranks, folder)]


def write_variance(study: ScaledStudy, rows: Sequence[VarianceRow], folder: Path) -> list[Path]:
    """The variance components as numbers (CSV), as people read them (Markdown, LaTeX), and as stacked bars."""
    path, shown = folder / VARIANCE_STEM, variance_sheet(study, rows)
    return [
        write_text(path.with_suffix(".csv"), variance_frame(rows).to_csv(index=False)),
        write_text(path.with_suffix(".md"), markdown(shown)),
        write_text(path.with_suffix(".tex"), latex(shown, f"{study.name} {study.scale} {study.variant} variance")),
        *draw_variance(rows, folder),
    ]


def _write_pages(study: ScaledStudy, report: Report, folder: Path, store: Store) -> list[Path]:
    """report.json and report.html, made of all the rest; and the index over all reports."""
    from fedbench.render.pages.write import write_pages  # it knows reports, so it comes after them

    return write_pages(study, report, folder, store)


def _stem(study: ScaledStudy, name: str) -> str:
    """A table's file name: the first one is the study's table."""
    return "table" if name == next(iter(study.study.tables)) else f"table-{name}"


def _possible(study: ScaledStudy) -> list[str]:
    """The names of all files that a report may write."""
    stems = [TABLE, *(_stem(study, name) for name in study.study.tables)]
    tables = [f"{stem}.{ending}" for stem in stems for ending in ("csv", "md", "tex")]
    return [
        *tables,
        "claims.csv",
        "claims.md",
        "ranks.csv",
        CLIENTS_FILE,
        "check.csv",
        "compare.csv",
        *(f"{VARIANCE_STEM}.{ending}" for ending in ("csv", "md", "tex")),
        *(f"{n}.{e}" for n in (STEM, VARIANCE_STEM, *study.study.plots) for e in FORMATS),
    ]


def _write_table(study: ScaledStudy, name: str, filled: Sequence[Place], path: Path, remarks: list[str]) -> list[Path]:
    """One table as numbers (CSV), and as people read it (Markdown, LaTeX), in files of the path's name."""
    table, shown = study.study.tables[name], sheet(study, name, filled, remarks)
    label = f"{study.name} {study.scale} {study.variant} {name}"
    return [
        write_text(path.with_suffix(".csv"), layout(table, filled, *noted(table, filled)).to_csv(index=False)),
        write_text(path.with_suffix(".md"), markdown(shown)),
        write_text(path.with_suffix(".tex"), latex(shown, label)),
    ]


def folder_of(study: ScaledStudy, store: Store) -> Path:
    """Where a study's tables and plots go; what options changed of it has a folder of its own below."""
    return store.reports / "studies" / study.name / study.scale / study.variant
