"""From stored trials to tables: tidy cells, the paper's layout, CSV, Markdown and LaTeX."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from fedbench.base.statistics import paired, spread
from fedbench.config.trial import TrialConfig
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.paper import Key, paper_numbers, row_keys
from fedbench.specs.parts import Show, TableSpec, text_label
from fedbench.store.metrics import METRICS
from fedbench.store.store import StoredTrial

Trials = Mapping[str, StoredTrial]

TIME_COLUMNS = ("seconds", "peak_memory_mb")
PROXY_COLUMN = "uses proxy"
PROXY_WORDS = {"none": "no", "unlabelled": "images", "labelled": "labels"}  # from least to most


@dataclass(frozen=True)
class Place:
    """One place of a table: its row labels, its column labels, its metric, and the cells (mostly one) behind it."""

    row: Key
    column: Key
    metric: str
    cells: tuple[Cell, ...]

    @property
    def key(self) -> Key:
        """Where the paper's number for it is found: row labels, then column labels."""
        return (*self.row, *self.column)


def places(study: ScaledStudy, table: TableSpec) -> Iterator[Place]:
    """All places of a table, row by row; those without a cell are left out, and so is what is pooled of a part."""
    cells = {tuple(cell.labels[axis] for axis in table.axes): cell for cell in study.select(table.where)}
    columns = list(product(*(study.labels(axis, table.where) for axis in table.columns)))
    for row, metric in product(product(*(study.labels(a, table.where) for a in table.rows)), table.metrics):
        name = (*row, metric) if len(table.metrics) > 1 else row
        here = {column: cells[(*row, *column)] for column in columns if (*row, *column) in cells}
        for column, cell in here.items():
            yield Place(name, column, metric, (cell,))
        if table.pool and len(here) > 1 and all(study.axes[axis] == study.whole[axis] for axis in table.columns):
            yield Place(name, (table.pool,), metric, tuple(here.values()))


def values_by_seed(
    study: ScaledStudy, cells: Sequence[Cell], trials: Trials, metric: str, show: Show = "value"
) -> dict[int, float]:
    """What every finished seed of a place has for a metric: itself, or against the baseline of the same seed."""
    values = _values(cells, trials, metric)
    if show == "value":
        return values
    base = baseline_values(study, cells, trials, metric)
    scale = {seed: 100 / base[seed] if show == "relative" else 1.0 for seed in base if show != "relative" or base[seed]}
    return {seed: scale[seed] * (values[seed] - base[seed]) for seed in values if seed in scale}


def _values(cells: Sequence[Cell], trials: Trials, metric: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for seed in cells[0].trials:
        done = [trial for cell in cells if (trial := finished(trials, cell.trials[seed].hash))]
        if len(done) < len(cells):
            continue
        pool = METRICS[metric].pool
        value = METRICS[metric].read(done[0]) if len(done) == 1 else pool(done) if pool else None
        if value is not None:
            found[seed] = value
    return found


def baseline_values(study: ScaledStudy, cells: Sequence[Cell], trials: Trials, metric: str) -> dict[int, float]:
    """What the baseline of a place has for a metric, by seed; nothing if the study has none there."""
    by_labels = {tuple(cell.labels.values()): cell for cell in study.cells}
    wanted = [tuple({**cell.labels, **study.study.baseline}[axis] for axis in cell.labels) for cell in cells]
    base = [by_labels[labels] for labels in wanted if labels in by_labels]
    return _values(base, trials, metric) if study.study.baseline and len(base) == len(cells) else {}


def finished(trials: Trials, hash_: str) -> StoredTrial | None:
    """A trial that is there and done."""
    trial = trials.get(hash_)
    return trial if trial and trial.status == "done" else None


def cells_frame(study: ScaledStudy, trials: Trials) -> pd.DataFrame:
    """One row a place of a table: axes, mean, spread, paired difference, the paper's number, failures, cost."""
    rows = []
    for name, table in study.study.tables.items():
        paper = paper_numbers(study.name, study.study, name) if study.scale == "paper" else {}
        for place in places(study, table):
            labels = {**place.cells[0].labels, **({table.columns[-1]: table.pool} if len(place.cells) > 1 else {})}
            number = paper.get(place.key)
            rows.append({"table": name, **labels, **_place_row(study, place, trials, table, number)})
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["table"])


def _place_row(
    study: ScaledStudy, place: Place, trials: Trials, table: TableSpec, paper: float | None
) -> dict[str, Any]:
    values = values_by_seed(study, place.cells, trials, place.metric, table.show)
    whole = spread(list(values.values()))
    there = [trial for cell in place.cells for config in cell.trials.values() if (trial := trials.get(config.hash))]
    done = [trial for trial in there if trial.status == "done"]
    diverged = sum(trial.status == "diverged" for trial in there)
    row: dict[str, Any] = {
        "value": place.metric,
        "mean": whole.mean,
        "std": whole.std,
        "n": whole.n,
        "seeds": len(place.cells[0].trials),
        "low95": whole.low,
        "high95": whole.high,
    }
    for variant in ("final", "best", "last"):
        row[f"accuracy_{variant}"] = spread([100 * t.summary[f"{variant}_accuracy"] for t in done]).mean
    if study.study.baseline:
        base = baseline_values(study, place.cells, trials, place.metric)
        change = paired(_values(place.cells, trials, place.metric), base)
        row |= {"difference": change.mean, "difference_low95": change.low, "difference_high95": change.high}
    row["paper"] = paper
    row["paper_difference"] = whole.mean - paper if whole.mean is not None and paper is not None else None
    row |= {"failed": sum(trial.status == "failed" for trial in there), "diverged": diverged}
    if place.metric == "test_accuracy" and table.show == "value":
        chance = 100 / next(iter(place.cells[0].trials.values())).dataset.num_classes
        row["mean_diverged_as_chance"] = spread([*values.values(), *[chance] * diverged]).mean
    row["seconds"] = sum(t.summary[f"seconds_{part}"] for t in done for part in ("train", "server", "eval"))
    row["peak_memory_mb"] = max((t.summary["peak_memory_bytes"] / 2**20 for t in done), default=None)
    return row


def layout(study: ScaledStudy, cells: pd.DataFrame, name: str) -> pd.DataFrame:
    """A table in the paper's layout: row labels, then the mean of every column; empty where nothing was run."""
    frame = _grid(study, cells, name, lambda place, cell, best: None if pd.isna(cell["mean"]) else float(cell["mean"]))
    return frame.infer_objects()


def shown(
    study: ScaledStudy,
    cells: pd.DataFrame,
    name: str,
    bold: tuple[str, str],
    pm: str,
    escape: Callable[[str], str] = str,
) -> pd.DataFrame:
    """A table as people read it: mean and spread, the paper's number, n where seeds are missing, the best in bold.

    `escape` makes labels fit where the table goes.
    """

    def text(place: Place, cell: pd.Series, best: bool) -> str:
        written = _text(cell, METRICS[place.metric].digits, pm, "*" if study.changed else "")
        return written.join(bold) if best else written

    frame = _grid(study, cells, name, text)
    for key in row_keys(study.study.tables[name]):
        frame[key] = [escape(text_label(label)) for label in frame[key]]
    return frame.fillna("-").rename(columns=escape)


def _grid(study: ScaledStudy, cells: pd.DataFrame, name: str, show: Any) -> pd.DataFrame:
    """Rows and columns of a table, each place shown by `show(place, its row of the cells, whether it is the best)`."""
    table = study.study.tables[name]
    own = cells[cells["table"] == name]
    found = list(zip(places(study, table), (row for _, row in own.iterrows()), strict=True))
    best = _best(found, table)
    keys, rows = row_keys(table), dict[Key, dict[str, Any]]()
    for place, cell in found:
        row = rows.setdefault(place.row, dict(zip(keys, place.row, strict=True)))
        row[" ".join(map(text_label, place.column))] = show(place, cell, place.key in best)
    frame = pd.DataFrame(rows.values(), dtype=object)
    if proxy := _proxy_column([place for place, _ in found]):
        frame.insert(len(keys), PROXY_COLUMN, [proxy[row] for row in rows])
    return frame


def _proxy_column(found: Sequence[Place]) -> dict[Key, str]:
    """What each row uses of the proxy set, at most; nothing if rows do not differ in it, or have several methods."""
    configs: dict[Key, list[TrialConfig]] = {}
    for place in found:
        configs.setdefault(place.row, []).extend(config for cell in place.cells for config in cell.trials.values())
    if any(len({config.method.name for config in own}) > 1 for own in configs.values()):
        return {}
    uses = {row: max(map(_proxy_use, own), key=list(PROXY_WORDS).index) for row, own in configs.items()}
    return {row: PROXY_WORDS[use] for row, use in uses.items()} if len(set(uses.values())) > 1 else {}


def _proxy_use(config: TrialConfig) -> str:
    """What a run uses of the proxy set, its batch-norm statistics included."""
    if config.method.proxy_as_client:
        return "labelled"
    if config.method.proxy_use == "none" and config.bn == "proxy" and config.uses_batch_norm:
        return "unlabelled"
    return config.method.proxy_use


def _best(found: Sequence[tuple[Place, pd.Series]], table: TableSpec) -> set[Key]:
    """The best places of each row, of each column, or along an axis, ties included; all their seeds must be there."""
    lines: dict[tuple[str, Key], dict[Key, float]] = {}
    names = [*row_keys(table), *table.columns]
    for place, cell in found:
        if not table.best or not METRICS[place.metric].better or cell["n"] < cell["seeds"]:
            continue
        line = {"row": place.row, "column": place.column}.get(table.best)
        if line is None:
            line = tuple(label for name, label in zip(names, place.key, strict=True) if name != table.best)
        lines.setdefault((place.metric, line), {})[place.key] = cell["mean"]
    choose = {"higher": max, "lower": min}
    best = {name: choose[METRICS[name[0]].better or "higher"](line.values()) for name, line in lines.items()}
    return {key for name, line in lines.items() if len(line) > 1 for key in line if line[key] == best[name]}


def _text(cell: pd.Series, digits: int, pm: str, star: str) -> str:
    if cell["n"] == 0:
        reasons = [word for word in ("diverged", "failed") if cell[word]]
        return reasons[0] if reasons else "-"
    text = f"{cell['mean']:.{digits}f}"
    if pd.notna(cell["std"]):
        text += f"{pm}{cell['std']:.{digits}f}"
    if cell["n"] < cell["seeds"]:
        text += f" (n={cell['n']:.0f})"
    if pd.notna(cell["paper"]):
        text += f" [{cell['paper']:.{digits}f}{star}]"
    return text
