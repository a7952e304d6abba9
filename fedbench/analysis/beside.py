"""What a table says beside its numbers: what each method sees of the data, and what it costs.

Where rows are methods these are further columns. Where columns are methods they are remarks, a value for each column.
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from fedbench.analysis.tables import Place
from fedbench.config import TrialConfig
from fedbench.specs.names import Label
from fedbench.specs.paper import Key
from fedbench.specs.parts import METHOD, TableSpec

PROXY_COLUMN, REPORTS_COLUMN = "uses proxy", "clients report"
PROXY_WORDS = {"none": "no", "unlabelled": "images", "labelled": "labels"}  # from least to most
REPORT_WORDS = {"loss": "loss", "class_counts": "class counts", "gradient": "mean gradient"}
COSTS = {"server_seconds": "server s a round", "megabytes": "MB a round"}  # numbers of a place, and their heads

Notes = dict[str, dict[Key, Any]]  # by head, then by row, by column or by place
Line = Callable[[Place], Key]  # the row, or the column, of a place


def beside(table: TableSpec, filled: Sequence[Place], *, costs: bool | None = None) -> Notes:
    """Return the notes on each row, if each row has one method.

    costs: whether to note them, by default as the table says.
    """
    return _notes(filled, _row, table.costs if costs is None else costs) if _one_method_each(filled, _row) else {}


def below(table: TableSpec, filled: Sequence[Place], *, costs: bool | None = None) -> Notes:
    """Return the notes on each column, if each column has one method, and rows have several."""
    alone = [place for place in filled if len(place.cells) == 1]  # without what is pooled over columns
    if _one_method_each(filled, _row) or not _one_method_each(alone, _column):
        return {}
    return _notes(alone, _column, table.costs if costs is None else costs)


def noted(table: TableSpec, filled: Sequence[Place]) -> tuple[Notes, Notes]:
    """Return the notes for a CSV file: those of rows, and those of columns by cell, each with its own cost."""
    names = {head: name for name, head in COSTS.items()}
    of_places = {
        head: {p.key: p.numbers[names[head]] if head in names else notes.get(p.column) for p in filled}
        for head, notes in below(table, filled).items()
    }
    return beside(table, filled), of_places


def _row(place: Place) -> Key:
    return place.row


def _column(place: Place) -> Key:
    return place.column


def _notes(filled: Sequence[Place], line: Line, costs: bool) -> Notes:
    """Return what methods see, if lines differ in it, and their costs, if they are wanted."""
    notes: Notes = {PROXY_COLUMN: _seen(filled, line, _proxy), REPORTS_COLUMN: _seen(filled, line, _reports)}
    if costs:
        notes |= {head: _mean_cost(filled, line, name) for name, head in COSTS.items()}
    return {head: note for head, note in notes.items() if note}


def _one_method_each(filled: Sequence[Place], line: Line) -> bool:
    """Whether each row, or each column, has one method: by its label, where methods are an axis, else by its name."""
    methods: dict[Key, set[Label]] = {}
    for place in filled:
        for cell in place.cells:
            names = {cell.labels.get(METHOD, config.method.name) for config in cell.trials.values()}
            methods.setdefault(line(place), set()).update(names)
    return all(len(names) == 1 for names in methods.values())


def _seen(filled: Sequence[Place], line: Line, look: Callable[[Sequence[TrialConfig]], str]) -> dict[Key, str]:
    """Return the result of `look` for every line; nothing if it is the same for all of them."""
    configs: dict[Key, list[TrialConfig]] = {}
    for place in filled:
        configs.setdefault(line(place), []).extend(config for cell in place.cells for config in cell.trials.values())
    words = {key: look(trials) for key, trials in configs.items()}
    return words if len(set(words.values())) > 1 else {}


def _proxy(trials: Sequence[TrialConfig]) -> str:
    """Return the most that any of some runs uses of the proxy set."""
    return PROXY_WORDS[max(map(_proxy_use, trials), key=list(PROXY_WORDS).index)]


def _proxy_use(config: TrialConfig) -> str:
    """Return what a run uses of the proxy set, including its batch-norm statistics."""
    if config.method.proxy_as_client:
        return "labelled"
    if config.method.proxy_use == "none" and config.bn == "proxy" and config.uses_batch_norm:
        return "unlabelled"
    return config.method.proxy_use


def _reports(trials: Sequence[TrialConfig]) -> str:
    """Return what clients report about their data."""
    told = dict.fromkeys(name for config in trials for name in config.method.reports)
    return ", ".join(REPORT_WORDS[name] for name in told) or "no"


def _mean_cost(filled: Sequence[Place], line: Line, name: str) -> dict[Key, float | None]:
    """Return the mean cost of a round for every line; None where no trial has it."""
    found: dict[Key, list[float]] = {}
    for place in filled:
        value = place.numbers[name]
        found.setdefault(line(place), []).extend([] if value is None else [value])
    return {key: fmean(values) if values else None for key, values in found.items()}
