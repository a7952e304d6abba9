"""The trials of a study for its page: what differs in their settings, how they ended, and where their files are."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedbench.base.settings import leaves
from fedbench.config import TrialConfig
from fedbench.config.naming import SHORT_HASH
from fedbench.reports.pages.charts import sparkline
from fedbench.reports.values import Trials
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import text_label

SPARKS, MOST_SPARK, FEWEST_SPARK = 20_000, 40, 10  # points of all sparklines, and of one
MOST_TRIALS = 1500  # rows; trials.csv has all of them


@dataclass(frozen=True)
class PageTrial:
    """One trial. labels: its place on every axis; differs: its settings that others have otherwise.

    score: in percent; files: where its folder or pack is, seen from the page.
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
    """The study's trials in its order, each one once, and how many there are beside them: failures come first then.

    running: hashes of those that run now.
    """
    cells = {config.hash: (cell, seed) for cell in reversed(study.cells) for seed, config in cell.trials.items()}
    order = sorted(study.trials, key=lambda hash_: hash_ in trials and trials[hash_].status == "done")
    shown = set(order[:MOST_TRIALS])
    differs = differing(study.trials)
    points = int(np.clip(SPARKS // max(1, len(shown)), FEWEST_SPARK, MOST_SPARK))
    rows = []
    for hash_ in study.trials:
        if hash_ in shown:
            cell, seed = cells[hash_]
            labels = [text_label(label) for label in cell.labels.values()]
            row = _row(hash_, labels, seed, differs[hash_], trials, folder, points)
            rows.append(replace(row, status="running") if hash_ in running else row)
    return rows, len(study.trials) - len(rows)


def _row(
    hash_: str, labels: Sequence[str], seed: int, differs: str, trials: Trials, folder: Path, points: int
) -> PageTrial:
    trial = trials.get(hash_)
    if trial is None:
        return PageTrial(hash_[:SHORT_HASH], labels, seed, "not run", "", differs, "", "", "", "")
    rounds = trial.table("rounds")
    scores = rounds["test_accuracy"].dropna() if "test_accuracy" in rounds else []
    score = f"{100 * trial.summary['final_accuracy']:.2f}" if trial.status == "done" else ""
    files = Path(os.path.relpath(trial.path.resolve(), folder.resolve())).as_posix()
    trace = f"{files}/traceback.txt" if (trial.path / "traceback.txt").is_file() else ""
    spark = sparkline([float(value) for value in scores], points)
    status, reason = trial.status, trial.reason or ""
    return PageTrial(hash_[:SHORT_HASH], labels, seed, status, reason, differs, spark, score, files, trace)


def differing(trials: Mapping[str, TrialConfig]) -> dict[str, str]:
    """By hash, the settings of a trial that are not the same in all of them, but for the seed."""
    flat = {hash_: _flat(config) for hash_, config in trials.items()}
    values: dict[str, set[str]] = {}
    for settings in flat.values():
        for key, value in settings.items():
            values.setdefault(key, set()).add(value)
    some = {key for key in values if sum(key in settings for settings in flat.values()) < len(flat)}
    keys = [key for key, seen in values.items() if key != "seed" and (len(seen) > 1 or key in some)]
    return {hash_: ", ".join(f"{k}={v[k]}" for k in keys if k in v) for hash_, v in flat.items()}


def _flat(config: TrialConfig) -> dict[str, str]:
    """Settings by their dotted keys, without those that say where it is computed."""
    settings: dict[str, Any] = config.model_dump(mode="json", exclude={"run"})
    return {key: str(_at(settings, key)) for key in leaves(settings)}


def _at(settings: Any, key: str) -> Any:
    for part in key.split("."):
        settings = settings[part]
    return settings
