"""A study's output folder: tables and plots, made from the store alone."""

import gzip
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedbench.base.files import write_bytes, write_text
from fedbench.reports.beside import noted
from fedbench.reports.claims import Finding, check_claims
from fedbench.reports.figures import FORMATS, draw
from fedbench.reports.rank_plot import STEM, draw_ranks
from fedbench.reports.ranks import Ranks, ranks_frame, study_ranks
from fedbench.reports.sheets import latex, markdown
from fedbench.reports.shown import claims_sheet, sheet
from fedbench.reports.tables import Place, Tables, cells_frame, fill_tables, layout
from fedbench.reports.variance import VarianceRow, study_variance, variance_frame, variance_sheet
from fedbench.reports.variance_plot import VARIANCE_STEM, draw_variance
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import DamagedError, Store, StoredTrial, read_rounds, scored_over

TRIAL_NUMBERS = (  # of the summary, in trials.csv
    *("final_accuracy", "last_accuracy", "best_accuracy", "best_round", "final_loss", "rounds"),
    *("bytes_up", "bytes_down", "seconds_train", "seconds_server", "seconds_eval", "peak_memory_bytes"),
)


@dataclass(frozen=True)
class Report:
    """What was made of a study."""

    tables: Tables
    files: list[Path]
    trials: dict[str, StoredTrial]
    findings: list[Finding]
    ranks: Ranks | None = None
    variance: Sequence[VarianceRow] = ()


def stored_trials(study: ScaledStudy, store: Store) -> dict[str, StoredTrial]:
    """The study's trials that the store has, by hash, scored as the study says."""
    stored = {hash_: trial for hash_ in study.trials if (trial := store.get(hash_))}
    return scored_over(stored, study.score.rounds)


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
            files += _write_table(study, name, filled, folder, remarks)
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
    for name, spec in study.study.plots.items():
        try:
            files += draw(study, trials, spec, folder / name)
        except DamagedError:
            raise
        except Exception as error:  # one picture is no reason to lose the others
            warnings.warn(f"plot '{name}' cannot be drawn ({type(error).__name__}: {error})", stacklevel=2)
    for old in {folder / name for name in _possible(study)} - set(files):
        old.unlink(missing_ok=True)  # of an earlier report, with other options
    report = Report(tables, files, trials, findings, ranks, variance)
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
    from fedbench.reports.pages.write import write_pages  # it knows reports, so it comes after them

    return write_pages(study, report, folder, store)


def _stem(study: ScaledStudy, name: str) -> str:
    """A table's file name: the first one is the study's table."""
    return "table" if name == next(iter(study.study.tables)) else f"table-{name}"


def _possible(study: ScaledStudy) -> list[str]:
    """The names of all files that a report may write."""
    tables = [f"{_stem(study, name)}.{ending}" for name in study.study.tables for ending in ("csv", "md", "tex")]
    return [
        *tables,
        "claims.csv",
        "claims.md",
        "ranks.csv",
        "check.csv",
        "compare.csv",
        *(f"{VARIANCE_STEM}.{ending}" for ending in ("csv", "md", "tex")),
        *(f"{n}.{e}" for n in (STEM, VARIANCE_STEM, *study.study.plots) for e in FORMATS),
    ]


def _write_table(study: ScaledStudy, name: str, filled: list[Place], folder: Path, remarks: list[str]) -> list[Path]:
    """One table as numbers (CSV), and as people read it (Markdown, LaTeX)."""
    path, table, shown = folder / _stem(study, name), study.study.tables[name], sheet(study, name, filled, remarks)
    label = f"{study.name} {study.scale} {study.variant} {name}"
    return [
        write_text(path.with_suffix(".csv"), layout(table, filled, *noted(table, filled)).to_csv(index=False)),
        write_text(path.with_suffix(".md"), markdown(shown)),
        write_text(path.with_suffix(".tex"), latex(shown, label)),
    ]


def folder_of(study: ScaledStudy, store: Store) -> Path:
    """Where a study's tables and plots go; what options changed of it has a folder of its own below."""
    return store.reports / "studies" / study.name / study.scale / study.variant


def claims_frame(findings: list[Finding]) -> pd.DataFrame:
    """The findings, a row each."""
    return pd.DataFrame(
        {
            "claim": finding.says,
            "at": finding.at,
            "evidence": finding.evidence,
            "mean": finding.spread.mean,
            "low95": finding.spread.low,
            "high95": finding.spread.high,
            "n": finding.spread.n,
            "p": finding.p,
            "q": finding.q,
            "verdict": finding.verdict,
            "paper": str(finding.paper or ""),
            "guessed": ", ".join(finding.guessed),
        }
        for finding in findings
    )


def rounds_frame(study: ScaledStudy, trials: dict[str, StoredTrial]) -> pd.DataFrame:
    """All rounds of all trials, tidy: the cell's labels, the seed, the trial's hash, then the columns of rounds.csv."""
    shown = [
        ({**cell.labels, "seed": seed, "hash": config.hash}, trial)
        for cell in study.cells
        for seed, config in cell.trials.items()
        if (trial := trials.get(config.hash)) and trial.status != "failed"
    ]
    read_rounds(trial for _, trial in shown)
    found = [(labels, columns) for labels, trial in shown if (columns := trial.rounds)]
    if not found:
        return pd.DataFrame()
    lengths = [len(columns["round"]) for _, columns in found]
    frame = {key: _repeated([labels[key] for labels, _ in found], lengths) for key in found[0][0]}
    for name in dict.fromkeys(name for _, columns in found for name in columns):
        parts = [columns.get(name) for _, columns in found]
        empty = (np.full(length, np.nan) for length in lengths)
        frame[name] = np.concatenate([gap if part is None else part for part, gap in zip(parts, empty, strict=True)])
    return pd.DataFrame(frame)


def _repeated(values: Sequence[Any], counts: Sequence[int]) -> "pd.Series[Any]":
    """Each value as many times as its count says, in a column of the type that all values have in common."""
    examples = {type(value): value for value in values}
    common = pd.concat([pd.DataFrame({"value": [value]}) for value in examples.values()])["value"].dtype
    column = pd.Series(values, dtype=object).astype(common)
    return column.take(np.repeat(np.arange(len(values)), counts)).set_axis(pd.RangeIndex(sum(counts)))


def trials_frame(study: ScaledStudy, trials: dict[str, StoredTrial]) -> pd.DataFrame:
    """A row a trial: the cell's labels, the seed, the hash, how it ended, its scores (fractions) and its cost."""
    rows = []
    for cell in study.cells:
        for seed, config in cell.trials.items():
            trial = trials.get(config.hash)
            summary = trial.summary if trial else {}
            reached = {f"rounds_to_{100 * float(k):g}": v for k, v in summary.get("rounds_to_accuracy", {}).items()}
            ended = {"status": trial.status if trial else "not run", "reason": trial.reason if trial else None}
            numbers = {name: summary.get(name) for name in TRIAL_NUMBERS}
            rows.append({**cell.labels, "seed": seed, "hash": config.hash, **ended, **numbers, **reached})
    return pd.DataFrame(rows)


def environments(trials: dict[str, StoredTrial]) -> list[str]:
    """The different environments behind a study's trials; more than one means that tables mix them."""
    return sorted({place for trial in trials.values() if trial.status != "failed" for place in trial.environments()})


def mixed(trials: dict[str, StoredTrial]) -> list[str]:
    """A line that says so, where a table mixes environments."""
    different = environments(trials)
    return [f"mixes {len(different)} environments: {'; '.join(different)}"] if len(different) > 1 else []
