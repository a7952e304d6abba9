"""The values of a metric in the trials of some cells, seed by seed."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from fedbench.analysis.statistics.verdicts import Array
from fedbench.base.errors import ConfigError
from fedbench.base.plugins import described
from fedbench.config import TrialConfig
from fedbench.metrics import METRICS
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Show
from fedbench.store.store import DamagedError, StoredTrial

Trials = Mapping[str, StoredTrial]
WORST = {"higher": -np.inf, "lower": np.inf}  # on the worse side of every number, by what is better


def finished(trials: Trials, hash_: str) -> StoredTrial | None:
    """Return a trial if it is stored and done, else None."""
    trial = trials.get(hash_)
    return trial if trial and trial.status == "done" else None


def values_by_seed(
    study: ScaledStudy, cells: Sequence[Cell], trials: Trials, metric: str, show: Show = "value"
) -> dict[int, float]:
    """Return the metric of every finished seed: the value itself, or compared with the baseline of the same seed."""
    values = plain_values(cells, trials, metric)
    if show == "value":
        return values
    base = baseline_values(study, cells, trials, metric)
    scale = {seed: 100 / base[seed] if show == "relative" else 1.0 for seed in base if show != "relative" or base[seed]}
    return {seed: scale[seed] * (values[seed] - base[seed]) for seed in values if seed in scale}


def plain_values(cells: Sequence[Cell], trials: Trials, metric: str) -> dict[int, float]:
    """Return the metric of every finished seed; several cells are pooled."""
    values: dict[int, float] = {}
    chosen = METRICS.get(metric)
    for seed in common_seeds(cells):
        done = [trial for cell in cells if (trial := finished(trials, cell.trials[seed].hash))]
        if len(done) < len(cells):
            continue
        try:
            if chosen.compare and len(done) == 1:
                others = _others(cells[0].trials[seed], done[0], chosen.beside, trials)
                value = chosen.compare(done[0], others) if len(others) == len(chosen.beside) else None
            else:
                value = chosen.read(done[0]) if len(done) == 1 else chosen.pool(done) if chosen.pool else None
        except DamagedError:
            raise
        except Exception as error:  # of somebody's own metric: its cells stay empty, the others are made
            warnings.warn(f"metric '{metric}' cannot be read ({described(error)})", stacklevel=2)
            value = None
        if value is not None:
            values[seed] = value
    return values


def _others(config: TrialConfig, trial: StoredTrial, methods: Sequence[str], trials: Trials) -> dict[str, StoredTrial]:
    """The finished trials of other methods with the same seed and the same other settings, by method."""
    found = {name: [finished(trials, hash_) for hash_ in _hashes(config, trial, name)] for name in methods}
    return {name: done[0] for name, each in found.items() if (done := [trial for trial in each if trial])}


def _hashes(config: TrialConfig, trial: StoredTrial, method: str) -> list[str]:
    """The hashes of a trial of another method: with the rule for running statistics of the trial, and with its own."""
    hashes: list[str] | None = trial.kept.get(f"trials of {method}")
    if hashes is None:
        settings, hashes = {**config.plain(), "method": {"name": method}}, []
        for left_out in ((), ("bn",)):
            with suppress(ConfigError):  # local_only has no other rule than its own
                hashes.append(TrialConfig(**{key: settings[key] for key in settings if key not in left_out}).hash)
        trial.kept[f"trials of {method}"] = hashes
    return hashes


def common_seeds(cells: Sequence[Cell]) -> list[int]:
    """Return the seeds that all cells have, in the order of the first cell."""
    return [seed for seed in cells[0].trials if all(seed in cell.trials for cell in cells)]


def outcomes(
    study: ScaledStudy,
    cells: Sequence[Cell],
    trials: Trials,
    metric: str,
    show: Show = "value",
    seeds: Sequence[int] | None = None,
) -> Array:
    """Return the metric for some seeds (by default all of the study) [seeds]; nan where there is no number.

    It is the value itself, or its difference to the baseline of the same seed. Infinite on the worse side where a trial
    diverged, or where it never reached what the metric waits for; nan for metrics without a better side. Against a
    baseline, the same follows on either side, and nan where both diverged.
    """
    chosen = study.seeds if seeds is None else seeds
    values = _outcomes(cells, trials, metric, chosen)
    if show == "value":
        return values
    there = baseline_cells(study, cells)
    base = _outcomes(there, trials, metric, chosen) if there else np.full(len(values), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = values - base
        share = np.where(base == 0, np.nan, 100 * apart / base)
    return apart if show == "difference" else np.where(np.isinf(apart), apart, share)


def _outcomes(cells: Sequence[Cell], trials: Trials, metric: str, seeds: Sequence[int]) -> Array:
    chosen, known = METRICS.get(metric), plain_values(cells, trials, metric)
    worst = WORST.get(chosen.better or "", np.nan)

    def lost(seed: int) -> bool:
        ended = [trials.get(cell.trials[seed].hash) if seed in cell.trials else None for cell in cells]
        return any(trial and trial.status == "diverged" for trial in ended) or (
            chosen.reaches and all(trial and trial.status == "done" for trial in ended)
        )

    return np.array([known.get(seed, worst if lost(seed) else np.nan) for seed in seeds], dtype=float)


def baseline_values(study: ScaledStudy, cells: Sequence[Cell], trials: Trials, metric: str) -> dict[int, float]:
    """Return the metric of the baseline of some cells, by seed; empty if the study has no baseline for them."""
    base = baseline_cells(study, cells)
    return plain_values(base, trials, metric) if base else {}


def baseline_cells(study: ScaledStudy, cells: Sequence[Cell]) -> list[Cell]:
    """Return the baseline of some cells; empty if the study does not have it for all of them."""
    wanted = [tuple({**cell.labels, **study.study.baseline}[axis] for axis in cell.labels) for cell in cells]
    base = [study.by_labels[labels] for labels in wanted if labels in study.by_labels]
    return base if study.study.baseline and len(base) == len(cells) else []
