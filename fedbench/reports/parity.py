"""Parity: our cells beside the paper's, one verdict each."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedbench.reports.tables import Place, places
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.paper import Key, paper_numbers, row_keys
from fedbench.specs.parts import text_label

VERDICTS = ("agrees", "differs", "not run", "not comparable")
COLUMNS = (
    *("table", "cell", "ours", "paper", "difference", "tolerance"),
    *("gain", "gain_low95", "gain_high95", "paper_gain", "verdict", "remark"),
)


def parity(study: ScaledStudy, cells: pd.DataFrame) -> pd.DataFrame:
    """A row for every number of the paper: ours, the difference, and whether it is within the study's tolerance.

    gain: the paired difference to the baseline, ours with its interval and the paper's; trust it first.
    """
    rows = []
    for name, table in study.study.tables.items():
        own = cells[cells["table"] == name]
        here = {place.key: (place, row) for place, (_, row) in zip(places(study, table), own.iterrows(), strict=True)}
        paper = paper_numbers(study.name, study.study, name) if study.scale == "paper" else {}
        rows += [_row(study, name, key, paper, here) for key in paper]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(
    study: ScaledStudy,
    name: str,
    key: Key,
    paper: Mapping[Key, float],
    here: Mapping[Key, tuple[Place, pd.Series]],
) -> dict[str, Any]:
    table = study.study.tables[name]
    labels = dict(zip([*row_keys(table), *table.columns], key, strict=True))
    number = paper[key]
    baseline = tuple({**labels, **study.study.baseline}[axis] for axis in labels)
    comparable = bool(study.study.baseline) and set(study.study.baseline) <= set(labels) and table.show == "value"
    row: dict[str, Any] = {
        "table": name,
        "cell": ", ".join(map(text_label, key)),
        "paper": number,
        "verdict": "not run",
    }
    if comparable and baseline in paper:
        row["paper_gain"] = number - paper[baseline]
    reference = study.study.reference
    assert reference is not None  # there are numbers, so there is a reference
    row["tolerance"] = reference.tolerance_of(name, str(labels.get("value", table.metrics[0])))
    if key in here:
        place, cell = here[key]
        if guessed := study.guessed(place.cells[0].labels):
            row["remark"] = f"setting guessed: {', '.join(guessed)}"
        if cell["n"]:
            row |= {"ours": cell["mean"], "difference": cell["mean"] - number}
            if comparable:
                row |= {f"gain{part}": cell.get(f"difference{part}") for part in ("", "_low95", "_high95")}
            row["verdict"] = "agrees" if abs(row["difference"]) <= row["tolerance"] else "differs"
            if cell["n"] < cell["seeds"]:
                row["remark"] = "; ".join(filter(None, [row.get("remark"), f"{cell['n']} of {cell['seeds']} seeds"]))
    for exception in reference.not_comparable:
        if all(labels.get(axis) in wanted for axis, wanted in exception.where.items()):
            row |= {"verdict": "not comparable", "remark": exception.why}
    if study.changed and row["verdict"] != "not run":
        row |= {"verdict": "not comparable", "remark": f"base settings changed: {study.changed}"}
    return row
