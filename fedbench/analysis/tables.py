"""Tables from stored trials: every cell with its numbers, tidy data, and the paper's layout."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pandas as pd

from fedbench.analysis.best import best_places
from fedbench.analysis.statistics.spread import paired, spread
from fedbench.analysis.values import Trials, baseline_values, common_seeds, finished, plain_values, values_by_seed
from fedbench.metrics import METRICS
from fedbench.metrics.base import Reader
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import text_label
from fedbench.specs.paper import Key, paper_numbers, row_keys
from fedbench.specs.parts import TableSpec
from fedbench.store.store import StoredTrial

COSTS = ("server_seconds", "megabytes")
TIME_COLUMNS = ("seconds", "server_seconds", "peak_memory_mb")


@dataclass(frozen=True)
class Place:
    """A cell of a table: its row labels, column labels and metric, and the cells of the study (mostly one) behind it.

    numbers: the columns of cells.csv, None where there is no number; values: by seed; bases: how the metric was
    computed (measured or expected, say), if it tells; best: whether it is marked as the best (see `best_places`).
    """

    row: Key
    column: Key
    metric: str
    cells: tuple[Cell, ...]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[int, float] = field(default_factory=dict)
    bases: Sequence[str] = ()
    best: bool = False

    @property
    def key(self) -> Key:
        """Return the row labels, then the column labels: the key of the paper's number for it."""
        return (*self.row, *self.column)


Tables = Mapping[str, Sequence[Place]]  # all places of every table, row by row


def places(study: ScaledStudy, table: TableSpec) -> Iterator[Place]:
    """Yield all cells of a table, row by row, without those that the study does not have.

    A pooled cell is left out where options left out some of its cells.
    """
    cells = {tuple(cell.labels[axis] for axis in table.axes): cell for cell in study.select(table.where)}
    columns = list(product(*(study.labels(axis, table.where) for axis in table.columns)))
    for row, metric in product(product(*(study.labels(a, table.where) for a in table.rows)), table.metrics):
        name = (*row, metric) if len(table.metrics) > 1 else row
        here = {column: cells[(*row, *column)] for column in columns if (*row, *column) in cells}
        for column, cell in here.items() if METRICS.get(metric).alone else ():
            yield Place(name, column, metric, (cell,))
        if table.pool and len(here) > 1 and all(study.axes[axis] == study.whole[axis] for axis in table.columns):
            yield Place(name, (table.pool,), metric, tuple(here.values()))


def fill_tables(study: ScaledStudy, trials: Trials) -> dict[str, list[Place]]:
    """Return all cells of every table with their numbers."""
    filled = {}
    for name, table in study.study.tables.items():
        paper = paper_numbers(study.name, study.study, name) if study.scale == "paper" else {}
        found = [
            replace(
                place,
                values=values,
                numbers=_numbers(study, place, values, trials, table, paper.get(place.key)),
                bases=_bases(place, trials),
            )
            for place in places(study, table)
            for values in [values_by_seed(study, place.cells, trials, place.metric, table.show)]
        ]
        best = best_places(study, trials, table, found)
        filled[name] = [replace(place, best=place.key in best) for place in found]
    return filled


def _numbers(
    study: ScaledStudy,
    place: Place,
    values: Mapping[int, float],
    trials: Trials,
    table: TableSpec,
    paper: float | None,
) -> dict[str, Any]:
    """Return mean, spread, paired difference, the paper's number, failures and cost of one cell.

    A metric such as rounds to an accuracy has no mean unless all seeds reached it: a mean of those that did would be
    too good.
    """
    own, base = (
        plain_values(place.cells, trials, place.metric),
        baseline_values(study, place.cells, trials, place.metric),
    )
    seeds = _finished(place.cells, trials)
    partly = METRICS.get(place.metric).reaches and len(own) < len(seeds)
    whole = spread([] if partly else list(values.values()))._replace(n=len(values))
    there = [trial for cell in place.cells for config in cell.trials.values() if (trial := trials.get(config.hash))]
    done = [trial for trial in there if trial.status == "done"]
    diverged = sum(trial.status == "diverged" for trial in there)
    numbers: dict[str, Any] = {
        "value": place.metric,
        "mean": whole.mean,
        "std": whole.std,
        "n": whole.n,
        "seeds": len(place.cells[0].trials),
        "low95": whole.low,
        "high95": whole.high,
    }
    for variant in ("final", "best", "last"):
        numbers[f"accuracy_{variant}"] = spread([100 * t.summary[f"{variant}_accuracy"] for t in done]).mean
    if METRICS.get(place.metric).reaches:
        numbers |= {"reached": len(own), "finished": len(seeds)}
        base = {} if partly or len(base) < len(own) else base
    if study.study.baseline:
        change = paired(own, base)
        numbers |= {"difference": change.mean, "difference_low95": change.low, "difference_high95": change.high}
        numbers["difference_n"] = change.n
    numbers["paper"] = paper
    numbers["paper_difference"] = whole.mean - paper if whole.mean is not None and paper is not None else None
    numbers |= {"failed": sum(trial.status == "failed" for trial in there), "diverged": diverged}
    if place.metric == "test_accuracy" and table.show == "value":
        chance = 100 / next(iter(place.cells[0].trials.values())).dataset.num_classes
        numbers["mean_diverged_as_chance"] = spread([*values.values(), *[chance] * diverged]).mean
    numbers["seconds"] = sum(t.summary[f"seconds_{part}"] for t in done for part in ("train", "server", "eval"))
    numbers |= {name: _a_round(done, METRICS.get(name).read) for name in COSTS}
    numbers["peak_memory_mb"] = max((t.summary["peak_memory_bytes"] / 2**20 for t in done), default=None)
    return numbers


def _bases(place: Place, trials: Trials) -> list[str]:
    """Return how the metric of a cell was computed in its finished trials, each way once.

    Nothing if the metric does not tell.
    """
    basis = METRICS.get(place.metric).basis
    if basis is None:
        return []
    configs = [config for cell in place.cells for config in cell.trials.values()]
    return list(dict.fromkeys(basis(trial) for config in configs if (trial := finished(trials, config.hash))))


def _finished(cells: Sequence[Cell], trials: Trials) -> list[int]:
    """Return the seeds whose trials are done in all cells."""
    return [seed for seed in common_seeds(cells) if all(finished(trials, cell.trials[seed].hash) for cell in cells)]


def _a_round(trials: Sequence[StoredTrial], cost: Reader) -> float | None:
    """Return the mean cost of a round over trials."""
    costs = [value / trial.summary["rounds"] for trial in trials if (value := cost(trial)) is not None]
    return spread(costs).mean


def cells_frame(study: ScaledStudy, tables: Tables) -> pd.DataFrame:
    """Return cells.csv: a row for each cell, with its table, its labels on all axes, and its numbers."""
    rows = []
    for name, filled in tables.items():
        table = study.study.tables[name]
        for place in filled:
            pooled = {table.columns[-1]: table.pool} if len(place.cells) > 1 else {}
            rows.append({"table": name, **place.cells[0].labels, **pooled, **place.numbers})
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["table"])


def layout(
    table: TableSpec,
    filled: Sequence[Place],
    beside: Mapping[str, Mapping[Key, Any]],
    below: Mapping[str, Mapping[Key, Any]],
) -> pd.DataFrame:
    """Return a table in the paper's layout: row labels, the notes on rows, then the mean of every column.

    below: notes on cells, by head, which become further columns. The table is empty if nothing was run.
    """
    keys, rows = row_keys(table), dict[Key, dict[str, Any]]()
    for place in filled:
        row = rows.setdefault(place.row, dict(zip(keys, place.row, strict=True)))
        row[_column_name(place)] = place.numbers["mean"]
    for head, notes in below.items():
        for place in filled:
            rows[place.row][f"{head}: {_column_name(place)}"] = notes[place.key]
    frame = pd.DataFrame(rows.values(), dtype=object)
    for number, (head, column) in enumerate(beside.items()):
        frame.insert(len(keys) + number, head, [column[row] for row in rows])
    return frame.infer_objects()


def _column_name(place: Place) -> str:
    return " ".join(map(text_label, place.column))
