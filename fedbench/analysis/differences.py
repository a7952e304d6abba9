"""The same study from two result folders: cells that differ, trials that only one has, environments that differ.

Cells are made of the trials that both folders have, so that seeds which only one has run move nothing.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedbench.analysis.agreement import agreement
from fedbench.analysis.tables import Place, fill_tables
from fedbench.analysis.trials import stored_trials
from fedbench.analysis.values import Trials
from fedbench.base.errors import UserError
from fedbench.metrics import METRICS
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import named, text_label
from fedbench.store.folder import config_of
from fedbench.store.store import Store, StoredTrial

TIMES = ("seconds", "server_seconds")  # metrics that differ from run to run
COLUMNS = ("table", "cell", "value", "first", "second", "difference", "rounding")


@dataclass(frozen=True)
class Differences:
    """The differences between the cells of one study in two results folders.

    cells: those that differ beyond rounding, which is half of the last digit that tables show (difference: the second
    without the first, None where only one has a number); shared: cells that both have; only: names of the trials that
    the first alone has, and the second alone; both, equal: trials that both have, and of these the ones with the same
    numbers in every round; environments: what differs, by name, with all that there is in each folder.
    """

    cells: pd.DataFrame
    shared: int
    only: tuple[list[str], list[str]]
    both: int
    equal: int
    environments: dict[str, tuple[str, str]]

    def beyond(self, tolerance: float | None) -> int:
        """Return how many cells differ by more than a tolerance in their table's unit; None: at all."""
        if tolerance is None:
            return len(self.cells)
        return int((self.cells["difference"].isna() | (self.cells["difference"].abs() > tolerance)).sum())


def trials_in(study: ScaledStudy, store: Store) -> Trials:
    """A study's trials in a folder, by today's hash: those of another version of the code by their settings."""
    found = dict(stored_trials(study, store))
    if len(found) < len(study.trials):
        for trial in store.all():
            hash_ = _hash_today(trial)
            if hash_ in study.trials and hash_ not in found:
                found[hash_] = trial.scored_over(study.score.rounds)
    return found


def _hash_today(trial: StoredTrial) -> str | None:
    try:
        return config_of(trial).hash
    except UserError:  # no settings, as of a trial that failed, or of something that is not here
        return None


def differences(study: ScaledStudy, first: Trials, second: Trials) -> Differences:
    """Compare the trials of two folders."""
    both = [hash_ for hash_ in study.trials if hash_ in first and hash_ in second]
    one, other = ({hash_: trials[hash_] for hash_ in both} for trials in (first, second))
    places = [_places(study, trials) for trials in (one, other)]
    rows = [_row(name, place, places[1][name, place.key]) for (name, _), place in places[0].items()]
    frame = pd.DataFrame([row for row in rows if _differs(row)], columns=list(COLUMNS))
    return Differences(
        cells=frame.astype({"difference": float}),
        shared=sum(row["first"] is not None or row["second"] is not None for row in rows),
        only=(_named(study, first.keys() - second.keys()), _named(study, second.keys() - first.keys())),
        both=len(both),
        equal=sum(agreement(one[hash_], other[hash_], 0.0).verdict == "equal" for hash_ in both),
        environments=_environments(one, other),
    )


def _places(study: ScaledStudy, trials: Trials) -> dict[tuple[str, Any], Place]:
    """Return all cells of every table, except for times."""
    filled = fill_tables(study, trials)
    return {(name, place.key): place for name, table in filled.items() for place in table if place.metric not in TIMES}


def _row(name: str, one: Place, other: Place) -> dict[str, Any]:
    first, second = one.numbers["mean"], other.numbers["mean"]
    pooled = len(one.cells) > 1
    words = map(text_label, one.key) if pooled else (named(*point) for point in one.cells[0].labels.items())
    return {
        "table": name,
        "cell": ", ".join(words),
        "value": one.metric,
        "first": first,
        "second": second,
        "difference": None if first is None or second is None else second - first,
        "rounding": 0.5 * 10.0 ** -METRICS.get(one.metric).digits,
    }


def _differs(row: dict[str, Any]) -> bool:
    if row["difference"] is None:
        return row["first"] is not row["second"]  # one of them has none
    return bool(abs(row["difference"]) >= row["rounding"])


def _named(study: ScaledStudy, hashes: Iterable[str]) -> list[str]:
    """Return trials by the settings in which they differ, in the order of the study."""
    wanted = set(hashes)
    names = {
        config.hash: str(study.name_of(cell, seed))
        for cell in study.cells
        for seed, config in cell.trials.items()
        if config.hash in wanted
    }
    return list(names.values())


def _environments(first: Trials, second: Trials) -> dict[str, tuple[str, str]]:
    """Return the values of environment.json that differ between the folders, by their names."""
    seen = [_seen(trials) for trials in (first, second)]
    names = dict.fromkeys([*seen[0], *seen[1]])
    texts = {name: (_text(seen[0].get(name)), _text(seen[1].get(name))) for name in names}
    return {name: pair for name, pair in texts.items() if pair[0] != pair[1]}


def _seen(trials: Trials) -> dict[str, set[str]]:
    """Return all values in the environments of the trials, by name."""
    seen: dict[str, set[str]] = {}
    for trial in trials.values():
        try:
            content = json.loads(trial.read("environment.json"))
        except FileNotFoundError:  # a trial that failed has none
            continue
        for place in (content, *content.get("earlier", ())):
            for name, value in place.items():
                if name != "earlier":
                    seen.setdefault(name, set()).add(str(value))
    return seen


def _text(values: set[str] | None) -> str:
    return ", ".join(sorted(values)) if values else "unknown"
