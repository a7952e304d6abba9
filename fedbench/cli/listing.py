"""What --list prints, with few imports."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedbench.base.text import printable, say
from fedbench.specs.expand import expand_study, load_study, study_files
from fedbench.specs.names import ScaleName
from fedbench.specs.space import expand_space, space_files
from fedbench.store.store import Store

LISTED: tuple[ScaleName, ...] = ("quick", "desk", "paper")
Rows = list[dict[str, Any]]


def print_list(folder: str, out: Path, *, as_json: bool) -> None:
    """Print the built-in files of a folder, `studies` or `search_spaces`, as a table or as JSON."""
    rows = study_rows(out) if folder == "studies" else space_rows()
    if as_json:
        say(json.dumps(rows, indent=2))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(escape(printable(_text(value))) for value in row.values()))
    Console().print(table)


def study_rows(out: Path) -> Rows:
    """Return a row for each built-in study: its name, what it shows, its trials at each scale and how many are done."""
    store, rows = Store(out), Rows()
    for name in study_files():
        stem, study = load_study(name)
        row: dict[str, Any] = {"name": name, "shows": study.shows, **dict.fromkeys(LISTED)}
        for scale in (scale for scale in LISTED if scale in study.scales):
            trials = expand_study(stem, study, scale, changes={}, only={}, seeds=None).trials
            done = sum(store.status(hash_) in ("done", "diverged") for hash_ in trials)
            row[scale] = {"trials": len(trials), "done": done}
        rows.append(row)
    return rows


def space_rows() -> Rows:
    """Return a row for each built-in space: its name, what it tunes, its methods and suggestions for each by scale."""
    rows = Rows()
    for name in space_files():
        scaled = {scale: expand_space(name, scale, changes={}) for scale in ("quick", "paper")}
        budget = {scale: space.trials for scale, space in scaled.items()}
        methods = [arm.label for arm in scaled["quick"].arms]
        rows.append({"name": name, "tunes": scaled["quick"].space.tunes, "methods": methods, **budget})
    return rows


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return f"{value['done']}/{value['trials']}"
    return ", ".join(value) if isinstance(value, list) else str(value)
