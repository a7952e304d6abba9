"""What the trials behind some cells have for a metric, seed by seed."""

import warnings
from collections.abc import Mapping, Sequence

from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Show
from fedbench.store.metrics import METRICS
from fedbench.store.store import StoredTrial

Trials = Mapping[str, StoredTrial]


def finished(trials: Trials, hash_: str) -> StoredTrial | None:
    """A trial that is there and done."""
    trial = trials.get(hash_)
    return trial if trial and trial.status == "done" else None


def values_by_seed(
    study: ScaledStudy, cells: Sequence[Cell], trials: Trials, metric: str, show: Show = "value"
) -> dict[int, float]:
    """What every finished seed has for a metric: itself, or against the baseline of the same seed."""
    values = plain_values(cells, trials, metric)
    if show == "value":
        return values
    base = baseline_values(study, cells, trials, metric)
    scale = {seed: 100 / base[seed] if show == "relative" else 1.0 for seed in base if show != "relative" or base[seed]}
    return {seed: scale[seed] * (values[seed] - base[seed]) for seed in values if seed in scale}


def plain_values(cells: Sequence[Cell], trials: Trials, metric: str) -> dict[int, float]:
    """What every finished seed has for a metric; of several cells, all together."""
    values: dict[int, float] = {}
    chosen = METRICS.get(metric)
    for seed in cells[0].trials:
        done = [trial for cell in cells if (trial := finished(trials, cell.trials[seed].hash))]
        if len(done) < len(cells):
            continue
        try:
            value = chosen.read(done[0]) if len(done) == 1 else chosen.pool(done) if chosen.pool else None
        except Exception as error:  # of somebody's own metric: its cells stay empty, the others are made
            warnings.warn(f"metric '{metric}' cannot be read ({type(error).__name__}: {error})", stacklevel=2)
            value = None
        if value is not None:
            values[seed] = value
    return values


def baseline_values(study: ScaledStudy, cells: Sequence[Cell], trials: Trials, metric: str) -> dict[int, float]:
    """What the baseline of some cells has for a metric, by seed; nothing if the study has none there."""
    by_labels = {tuple(cell.labels.values()): cell for cell in study.cells}
    wanted = [tuple({**cell.labels, **study.study.baseline}[axis] for axis in cell.labels) for cell in cells]
    base = [by_labels[labels] for labels in wanted if labels in by_labels]
    return plain_values(base, trials, metric) if study.study.baseline and len(base) == len(cells) else {}
