"""From stored trials to tables: tidy cells, the paper's layout, CSV, Markdown and LaTeX."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pandas as pd

from fedbench.results.statistics import paired, spread
from fedbench.results.store import StoredTrial
from fedbench.studyfile import Cell, Label, ScaledStudy, TableSpec, text_label

Trials = Mapping[str, StoredTrial]

# metric -> (key of the summary, factor to what tables show)
METRICS: Mapping[str, tuple[str, float]] = {
    "test_accuracy": ("final_accuracy", 100.0),
    "test_loss": ("final_loss", 1.0),
    "gamma": ("middle_gamma", 1.0),
    "r": ("middle_r", 1.0),
    "norm_opt": ("middle_norm_opt", 1.0),
    "norm_reg": ("middle_norm_reg", 1.0),
}
DIGITS = {"test_accuracy": 2, "r": 2, "norm_opt": 2, "norm_reg": 2}
TIME_COLUMNS = ("seconds", "peak_memory_mb")


def values_by_seed(cell: Cell, trials: Trials, metric: str) -> dict[int, float]:
    """What every finished seed of a cell has for a metric."""
    key, factor = METRICS[metric]
    found = {seed: _finished(config.hash, trials) for seed, config in cell.trials.items()}
    values = {seed: trial.summary.get(key) for seed, trial in found.items() if trial}
    return {seed: factor * value for seed, value in values.items() if value is not None}


def _finished(hash_: str, trials: Trials) -> StoredTrial | None:
    trial = trials.get(hash_)
    return trial if trial and trial.status == "done" else None


def cells_frame(study: ScaledStudy, trials: Trials) -> pd.DataFrame:
    """One row a cell and table: axes, mean, spread, paired difference, the paper's number, failures, cost."""
    rows = []
    for name, table in study.study.tables.items():
        paper = reference_values(study, name, table)
        baselines = {tuple(cell.labels.values()): cell for cell in study.cells}
        for cell in study.cells:
            rows.append({"table": name, **cell.labels, **_cell_row(study, cell, baselines, trials, table, paper)})
    return pd.DataFrame(rows)


def _cell_row(
    study: ScaledStudy,
    cell: Cell,
    cells: Mapping[tuple[Label, ...], Cell],
    trials: Trials,
    table: TableSpec,
    paper: Mapping[tuple[Label, ...], float],
) -> dict[str, Any]:
    values = values_by_seed(cell, trials, table.value)
    whole = spread(list(values.values()))
    there = [trial for config in cell.trials.values() if (trial := trials.get(config.hash))]
    done = [trial for trial in there if trial.status == "done"]
    diverged = sum(trial.status == "diverged" for trial in there)
    row: dict[str, Any] = {
        "value": table.value,
        "mean": whole.mean,
        "std": whole.std,
        "n": whole.n,
        "seeds": len(cell.trials),
        "low95": whole.low,
        "high95": whole.high,
    }
    for variant in ("final", "best", "last"):
        row[f"accuracy_{variant}"] = spread([100 * t.summary[f"{variant}_accuracy"] for t in done]).mean
    if study.study.baseline:
        other = cells.get(tuple((cell.labels | study.study.baseline)[axis] for axis in cell.labels))  # type: ignore[operator]
        change = paired(values, values_by_seed(other, trials, table.value)) if other else spread([])
        row |= {"difference": change.mean, "difference_low95": change.low, "difference_high95": change.high}
    number = paper.get(tuple(cell.labels[axis] for axis in (*table.rows, *table.columns)))
    row["paper"] = number
    row["paper_difference"] = whole.mean - number if whole.mean is not None and number is not None else None
    row |= {"failed": sum(trial.status == "failed" for trial in there), "diverged": diverged}
    if table.value == "test_accuracy":
        chance = 100 / next(iter(cell.trials.values())).dataset.num_classes
        row["mean_diverged_as_chance"] = spread([*values.values(), *[chance] * diverged]).mean
    row["seconds"] = sum(t.summary[f"seconds_{part}"] for t in done for part in ("train", "server", "eval"))
    row["peak_memory_mb"] = max((t.summary["peak_memory_bytes"] / 2**20 for t in done), default=None)
    return row


def reference_values(study: ScaledStudy, name: str, table: TableSpec) -> dict[tuple[Label, ...], float]:
    """The paper's numbers by (row labels..., column labels...); none at a scale that is not the paper's."""
    reference = study.study.reference
    rows = (reference.model_extra or {}).get(name) if reference and study.scale == "paper" else None
    depth, found = len(table.rows), {}
    columns = list(product(*(_all_labels(study, axis) for axis in table.columns)))
    for row in rows or []:
        for column, number in zip(columns, row[depth:], strict=True):
            found[(*row[:depth], *column)] = float(number)
    return found


def _all_labels(study: ScaledStudy, axis: str) -> list[Label]:
    """An axis in full, as the file has it: the paper's columns do not change with --only."""
    return list(study.study.grid[axis])


def layout(study: ScaledStudy, cells: pd.DataFrame, name: str) -> pd.DataFrame:
    """A table in the paper's layout: row labels, then the mean of every column; empty where nothing was run."""
    table = study.study.tables[name]
    own = cells[cells["table"] == name]
    rows = []
    for labels in product(*(study.axes[axis] for axis in table.rows)):
        row: dict[str, Any] = dict(zip(table.rows, labels, strict=True))
        for column in product(*(study.axes[axis] for axis in table.columns)):
            row[" ".join(map(text_label, column))] = _mean_at(own, table, labels, column)
        rows.append(row)
    return pd.DataFrame(rows)


def _mean_at(
    cells: pd.DataFrame, table: TableSpec, rows: tuple[Label, ...], columns: tuple[Label, ...]
) -> float | None:
    """The mean of the cell in one place of the table."""
    chosen = cells
    for axis, label in zip((*table.rows, *table.columns), (*rows, *columns), strict=True):
        chosen = chosen[chosen[axis] == label]
    means = chosen["mean"].dropna()
    return float(means.mean()) if len(means) else None


def shown(study: ScaledStudy, cells: pd.DataFrame, name: str, bold: tuple[str, str], pm: str) -> pd.DataFrame:
    """A table as people read it: mean and spread, the paper's number, n where seeds are missing, the best in bold."""
    table = study.study.tables[name]
    axes = [*table.rows, *table.columns]
    own = {tuple(row[axis] for axis in axes): row for _, row in cells[cells["table"] == name].iterrows()}
    digits = DIGITS.get(table.value, 4)
    rows = []
    for labels in product(*(study.axes[axis] for axis in table.rows)):
        columns = list(product(*(study.axes[axis] for axis in table.columns)))
        here = {column: own[(*labels, *column)] for column in columns}
        best = _best(here) if table.best == "row" else None
        row: dict[str, str] = {axis: text_label(label) for axis, label in zip(table.rows, labels, strict=True)}
        for column in columns:
            text = _text(here[column], digits, pm)
            row[" ".join(map(text_label, column))] = text.join(bold) if column == best else text
        rows.append(row)
    return pd.DataFrame(rows)


def _best(cells: Mapping[tuple[Label, ...], pd.Series]) -> tuple[Label, ...] | None:
    """The column with the largest mean among cells that have all their seeds."""
    whole = {column: cell["mean"] for column, cell in cells.items() if cell["n"] == cell["seeds"]}
    return max(whole, key=lambda column: whole[column]) if len(whole) > 1 else None


def _text(cell: pd.Series, digits: int, pm: str) -> str:
    if cell["n"] == 0:
        reasons = [word for word in ("diverged", "failed") if cell[word]]
        return reasons[0] if reasons else "-"
    text = f"{cell['mean']:.{digits}f}"
    if pd.notna(cell["std"]):
        text += f"{pm}{cell['std']:.{digits}f}"
    if cell["n"] < cell["seeds"]:
        text += f" (n={cell['n']:.0f})"
    if pd.notna(cell["paper"]):
        text += f" [{cell['paper']:.{digits}f}]"
    return text
