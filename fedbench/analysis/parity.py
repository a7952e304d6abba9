"""Parity: our cells beside the paper's, one verdict each."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedbench.analysis.tables import Place, Tables
from fedbench.base.settings import in_words
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import Mark, text_label
from fedbench.specs.paper import Key, paper_numbers, row_keys

VERDICTS = ("agrees", "differs", "not run", "not comparable")
UNSURE: Mapping[Mark, str] = {"W": "setting guessed", "I": "setting inferred"}
COLUMNS = (
    *("table", "cell", "ours", "paper", "difference", "tolerance"),
    *("gain", "gain_low95", "gain_high95", "paper_gain", "verdict", "remark"),
)


def parity(study: ScaledStudy, tables: Tables) -> pd.DataFrame:
    """Return a row for each number of the paper: ours, the difference, and whether it is within the tolerance.

    gain: the paired difference to the baseline, ours with its interval and the paper's; trust it first.
    """
    rows = []
    for name, filled in tables.items():
        here = {place.key: place for place in filled}
        paper = paper_numbers(study.name, study.study, name) if study.scale == "paper" else {}
        rows += [_row(study, name, key, paper, here.get(key)) for key in paper]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(study: ScaledStudy, name: str, key: Key, paper: Mapping[Key, float], place: Place | None) -> dict[str, Any]:
    table, reference = study.study.tables[name], study.study.reference
    assert reference is not None  # there are numbers, so there is a reference
    labels = dict(zip([*row_keys(table), *table.columns], key, strict=True))
    baseline = tuple({**labels, **study.study.baseline}[axis] for axis in labels)
    comparable = bool(study.study.baseline) and set(study.study.baseline) <= set(labels) and table.show == "value"
    row: dict[str, Any] = {
        "table": name,
        "cell": ", ".join(map(text_label, key)),
        "paper": paper[key],
        "tolerance": reference.tolerance_of(name, str(labels.get("value", table.metrics[0]))),
        "verdict": "not run",
    }
    if comparable and baseline in paper:
        row["paper_gain"] = paper[key] - paper[baseline]
    if place:
        row |= _ours(place, paper[key], row["tolerance"], comparable)
        row["remark"] = "; ".join(_remarks(study, name, place)) or None
    for exception in reference.not_comparable:
        if all(labels.get(axis) in wanted for axis, wanted in exception.where.items()):
            row |= {"verdict": "not comparable", "remark": exception.why}
    if study.changed and row["verdict"] != "not run":
        row |= {"verdict": "not comparable", "remark": f"base settings changed: {', '.join(in_words(study.changed))}"}
    return row


def _remarks(study: ScaledStudy, table: str, place: Place) -> list[str]:
    """Return remarks on a cell: settings that the paper does not state, and missing seeds."""
    remarks, numbers = list[str](), place.numbers
    for mark, words in UNSURE.items():
        found = [key for cell in place.cells for key in study.marked(mark, cell, place.metric, table)]
        remarks += [f"{words}: {', '.join(dict.fromkeys(found))}"] if found else []
    partly = 0 < numbers["n"] < numbers["seeds"]
    return [*remarks, f"{numbers['n']} of {numbers['seeds']} seeds"] if partly else remarks


def _ours(place: Place, paper: float, tolerance: float, comparable: bool) -> dict[str, Any]:
    """Return our number, its difference to the paper's, the verdict and, if comparable, the gain over the baseline."""
    numbers, row = place.numbers, dict[str, Any]()
    if numbers["n"]:
        difference = numbers["mean"] - paper
        row |= {"ours": numbers["mean"], "difference": difference}
        row["verdict"] = "agrees" if abs(difference) <= tolerance else "differs"
        if comparable:
            row |= {f"gain{part}": numbers.get(f"difference{part}") for part in ("", "_low95", "_high95")}
    return row
