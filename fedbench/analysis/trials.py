"""The stored trials of a study, and data frames of their rounds and of their final numbers."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedbench.base.errors import one_line
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.store.store import Store, StoredTrial, read_rounds, scored_over

TRIAL_NUMBERS = (  # of the summary, in trials.csv
    *("final_accuracy", "last_accuracy", "best_accuracy", "best_round", "final_loss", "rounds"),
    *("bytes_up", "bytes_down", "seconds_train", "seconds_server", "seconds_eval", "peak_memory_bytes"),
)
MOST_CELLS = 6  # that are named of those with the same trouble
NUMBERS = re.compile(r"\d+(, \d+)*")


def stored_trials(study: ScaledStudy, store: Store) -> dict[str, StoredTrial]:
    """Return the study's trials that the store has, by hash, scored as the study says."""
    stored = {hash_: trial for hash_ in study.trials if (trial := store.get(hash_))}
    return scored_over(stored, study.score.rounds)


def rounds_frame(study: ScaledStudy, trials: dict[str, StoredTrial]) -> pd.DataFrame:
    """Return all rounds of all trials: the cell's labels, the seed, the hash, then the columns of rounds.csv."""
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
    """Return each value as often as its count says, in a column of the type that all values have in common."""
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


@dataclass(frozen=True)
class Trouble:
    """Trials that failed or diverged for the same reason. count: of trials; example: the first of them."""

    count: int
    cells: str
    example: StoredTrial

    @property
    def sentence(self) -> str:
        """How they ended, which they are, and why; that is the first one's reason where only numbers in it differ."""
        several = f"{self.count} trials: " if self.count > 1 else ""
        return f"{self.example.status}: {several}{self.cells}: {one_line(self.example.reason)}"


def troubles(study: ScaledStudy, trials: dict[str, StoredTrial]) -> list[Trouble]:
    """Return the trials that failed or diverged, those with the same reason together."""
    found: dict[tuple[str, str], dict[str, tuple[Cell, int]]] = {}
    for cell in study.cells:
        for seed, config in cell.trials.items():
            trial = trials.get(config.hash)
            if trial and trial.status != "done":
                reason = str(trial.reason)  # divergences differ in the round and in the clients
                kind = NUMBERS.sub("N", reason) if trial.status == "diverged" else reason
                found.setdefault((trial.status, kind), {}).setdefault(config.hash, (cell, seed))
    return [Trouble(len(those), _places(study, those.values()), trials[next(iter(those))]) for those in found.values()]


def _places(study: ScaledStudy, those: Iterable[tuple[Cell, int]]) -> str:
    """Cells and their seeds in words; cells with the same seeds stand together."""
    seeds: dict[str, list[int]] = {}
    for cell, seed in those:
        seeds.setdefault(study.name_of(cell, seed).axes, []).append(seed)
    names: dict[str, list[str]] = {}
    for name, some in seeds.items():
        names.setdefault(", ".join(map(str, some)), []).append(name)
    texts = []
    for some_seeds, cells in names.items():
        word = "seeds" if "," in some_seeds else "seed"
        more = f"; and {len(cells) - MOST_CELLS} more cells" if len(cells) > MOST_CELLS else ""
        at = "; ".join(filter(None, cells[:MOST_CELLS])) + more
        texts.append(f"{at} ({word} {some_seeds})" if at else f"{word} {some_seeds}")
    return "; ".join(texts)


def environments(trials: dict[str, StoredTrial]) -> list[str]:
    """Return the different environments in which a study's trials ran, sorted."""
    return sorted({place for trial in trials.values() if trial.status != "failed" for place in trial.environments()})


def mixed(trials: dict[str, StoredTrial]) -> list[str]:
    """Return a remark if trials ran in different environments, else an empty list."""
    different = environments(trials)
    return [f"mixes {len(different)} environments: {'; '.join(different)}"] if len(different) > 1 else []
