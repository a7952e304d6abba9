"""The trials of a study for its page: what differs in their settings, how they ended, and where their files are."""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedbench.analysis.values import Trials
from fedbench.base.settings import leaves
from fedbench.config import TrialConfig
from fedbench.config.naming import SHORT_HASH
from fedbench.render.pages.charts import sparkline
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import text_label

SPARKS, MOST_SPARK, FEWEST_SPARK = 20_000, 40, 10  # points of all sparklines, and of one
TRACE = "traceback.txt"
MOST_TRIALS = 1500  # rows; trials.csv has all of them


@dataclass(frozen=True)
class PageTrial:
    """One trial. labels: on every axis; differs: the settings that are not the same in all trials.

    score: in percent; files: the address of its folder or pack, relative to the page.
    """

    hash: str
    labels: Sequence[str]
    seed: int
    status: str
    reason: str
    differs: str
    spark: str
    score: str
    files: str
    trace: str


def page_trials(
    study: ScaledStudy, trials: Trials, folder: Path, running: Collection[str] = ()
) -> tuple[list[PageTrial], int]:
    """Return the study's trials in its order, each once, and the number of further trials.

    Failures are never left out first.

    running: the hashes of the trials that are running.
    """
    cells = {config.hash: (cell, seed) for cell in reversed(study.cells) for seed, config in cell.trials.items()}
    differs, places = _differs(study), _Places(folder)
    order = sorted(study.trials, key=lambda hash_: hash_ in trials and trials[hash_].status == "done")
    shown = set(order[:MOST_TRIALS])
    points = int(np.clip(SPARKS // max(1, len(shown)), FEWEST_SPARK, MOST_SPARK))
    rows = []
    for hash_ in study.trials:
        if hash_ in shown:
            cell, seed = cells[hash_]
            labels = [text_label(label) for label in cell.labels.values()]
            row = _row(hash_, labels, seed, differs[hash_], trials, places, points)
            rows.append(replace(row, status="running") if hash_ in running else row)
    return rows, len(study.trials) - len(rows)


def _row(
    hash_: str, labels: Sequence[str], seed: int, differs: str, trials: Trials, places: "_Places", points: int
) -> PageTrial:
    trial = trials.get(hash_)
    if trial is None:
        return PageTrial(hash_[:SHORT_HASH], labels, seed, "not run", "", differs, "", "", "", "")
    scores = trial.rounds.get("test_accuracy", np.array([]))
    score = f"{100 * trial.summary['final_accuracy']:.2f}" if trial.status == "done" else ""
    files = places.link(trial.path)
    trace = f"{files}/{TRACE}" if TRACE in trial.sums and (trial.path / TRACE).is_file() else ""
    spark = sparkline(scores[~np.isnan(scores)].tolist(), points)
    status, reason = trial.status, trial.reason or ""
    return PageTrial(hash_[:SHORT_HASH], labels, seed, status, reason, differs, spark, score, files, trace)


class _Places:
    """The addresses of entries relative to the folder of a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._above: dict[Path, Path] = {}

    def link(self, entry: Path) -> str:
        """Return the relative address of an entry, which is never a symbolic link itself."""
        if entry.parent not in self._above:
            self._above[entry.parent] = Path(os.path.relpath(entry.parent.resolve(), self.folder))
        return (self._above[entry.parent] / entry.name).as_posix()


def _differs(study: ScaledStudy) -> dict[str, str]:
    """Return by hash the settings of a trial that are not the same in all trials; within a cell only seeds differ."""
    cells = {config.hash: number for number, cell in enumerate(study.cells) for config in cell.trials.values()}
    configs = {number: next(iter(study.cells[number].trials.values())) for number in cells.values()}
    texts = dict(zip(configs, differing(configs.values()), strict=True))
    return {hash_: texts[number] for hash_, number in cells.items()}


def differing(trials: Iterable[TrialConfig]) -> list[str]:
    """Return the settings of each trial that are not the same in all of them, without the seed."""
    flat = [_flat(config) for config in trials]
    values: dict[str, set[str]] = {}
    for settings in flat:
        for key, value in settings.items():
            values.setdefault(key, set()).add(value)
    some = {key for key in values if sum(key in settings for settings in flat) < len(flat)}
    keys = [key for key, seen in values.items() if key != "seed" and (len(seen) > 1 or key in some)]
    return [", ".join(f"{k}={v[k]}" for k in keys if k in v) for v in flat]


def _flat(config: TrialConfig) -> dict[str, str]:
    """Return settings by their dotted keys, without those under `run`."""
    settings: dict[str, Any] = config.model_dump(mode="json", exclude={"run"})
    return {key: str(_at(settings, key)) for key in leaves(settings)}


def _at(settings: Any, key: str) -> Any:
    for part in key.split("."):
        settings = settings[part]
    return settings
