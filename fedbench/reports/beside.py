"""What stands beside a table's numbers: what a row's method sees of the data, and what it costs."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from fedbench.config import TrialConfig
from fedbench.reports.tables import Place
from fedbench.specs.paper import Key
from fedbench.specs.parts import TableSpec

PROXY_COLUMN, REPORTS_COLUMN = "uses proxy", "clients report"
PROXY_WORDS = {"none": "no", "unlabelled": "images", "labelled": "labels"}  # from least to most
REPORT_WORDS = {"loss": "loss", "class_counts": "class counts", "gradient": "mean gradient"}
COSTS = {"server_seconds": "server s a round", "megabytes": "MB a round"}  # numbers of a place, and their heads

Columns = dict[str, dict[Key, Any]]  # by head, then by row


def beside(table: TableSpec, filled: Sequence[Place]) -> Columns:
    """The columns between labels and numbers: what is seen, where rows differ in it; costs, where asked for."""
    columns: Columns = {PROXY_COLUMN: _seen(filled, _proxy), REPORTS_COLUMN: _seen(filled, _reports)}
    if table.costs:
        columns |= {head: cost_by_row(filled, name) for name, head in COSTS.items()}
    return {head: column for head, column in columns.items() if column}


def _seen(filled: Sequence[Place], look: Callable[[Sequence[TrialConfig]], str]) -> dict[Key, str]:
    """What `look` says of every row; nothing if rows do not differ in it, or have several methods."""
    configs: dict[Key, list[TrialConfig]] = {}
    for place in filled:
        configs.setdefault(place.row, []).extend(config for cell in place.cells for config in cell.trials.values())
    if any(len({config.method.name for config in row}) > 1 for row in configs.values()):
        return {}
    words = {row: look(trials) for row, trials in configs.items()}
    return words if len(set(words.values())) > 1 else {}


def _proxy(trials: Sequence[TrialConfig]) -> str:
    """What runs use of the proxy set, at most."""
    return PROXY_WORDS[max(map(_proxy_use, trials), key=list(PROXY_WORDS).index)]


def _proxy_use(config: TrialConfig) -> str:
    """What a run uses of the proxy set, its batch-norm statistics included."""
    if config.method.proxy_as_client:
        return "labelled"
    if config.method.proxy_use == "none" and config.bn == "proxy" and config.uses_batch_norm:
        return "unlabelled"
    return config.method.proxy_use


def _reports(trials: Sequence[TrialConfig]) -> str:
    """What clients tell of their data."""
    told = dict.fromkeys(name for config in trials for name in config.method.reports)
    return ", ".join(REPORT_WORDS[name] for name in told) or "no"


def cost_by_row(filled: Sequence[Place], name: str) -> dict[Key, float | None]:
    """The mean of a cost over a row's places."""
    found: dict[Key, list[float]] = {}
    for place in filled:
        value = place.numbers[name]
        found.setdefault(place.row, []).extend([] if value is None else [value])
    return {row: fmean(values) if values else None for row, values in found.items()}
