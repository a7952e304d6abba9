"""A small study of one's own, and its results; waiting; and a listener."""

import json
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import pandas as pd

from fedbench.analysis.tables import TIME_COLUMNS
from fedbench.simulation import Callback, Record, Simulation

STUDY = """
title: Mine
shows: Something.
base: {data.train_size: 300, data.test_size: 200, clients.count: 3, rounds: %d, method.name: fixed_gamma}
grid:
  data.alpha: [100, 1]
  method.gamma: [1.0, 0.9]
seeds: %s
baseline: {method.gamma: 1.0}
tables:
  accuracy: {rows: [data.alpha], columns: [method.gamma], best: row}
scales:
  quick: {}
"""
PLOTS = """
plots:
  curves: {colour: method.gamma, panels: [data.alpha]}
"""

PACED = """
import time
from typing import Literal

from fedbench.methods.fixed_gamma import FixedGamma, FixedGammaSettings
from fedbench.methods.base import register_method


class PacedSettings(FixedGammaSettings):
    name: Literal["paced"] = "paced"


@register_method(version="1")
class Paced(FixedGamma):
    Settings = PacedSettings

    def aggregate(self, cohort, state, server):
        time.sleep(%s)
        return super().aggregate(cohort, state, server)
"""


def study_file(folder: Path, rounds: int = 3, seeds: tuple[int, ...] = (8, 9)) -> str:
    """Write the study; four trials for each seed."""
    path = folder / "mine.yaml"
    path.write_text(STUDY % (rounds, list(seeds)) + PLOTS)
    return str(path)


def paced(text: str, folder: Path, seconds: float | str) -> str:
    """A study of fixed gammas whose rounds take time, but no processor's: trials that are to be met in the middle.

    seconds: that a round takes at least, or an expression for them.
    """
    (folder / "paced.py").write_text(PACED % seconds)
    return "import: [paced]\n" + text.replace("method.name: fixed_gamma", "method.name: paced")


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Until it comes to that; on a slow machine, too."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


def results(out: Path) -> tuple[str, str]:
    """table.csv, and cells.csv without its time columns."""
    folder = out / "studies" / "mine" / "quick"
    cells = pd.read_csv(folder / "cells.csv").drop(columns=list(TIME_COLUMNS))
    return (folder / "table.csv").read_text(), cells.to_csv()


def forged(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of an entry, with sums, and a summary, that fit: so that nobody sees that some were changed."""
    mark = json.loads(files["trial.json"])
    mark["summary"].update(status=mark["status"], reason=mark["reason"])
    forged = {**files, "summary.json": json.dumps(mark["summary"]).encode()}
    mark["files"] = {name: sha256(content).hexdigest() for name, content in forged.items() if name != "trial.json"}
    return {**forged, "trial.json": json.dumps(mark).encode()}


def forge(entry: Path, name: str, change: Callable[[str], str]) -> None:
    """Change a file of an entry of the store so that nobody sees that it was."""
    files = {path.name: path.read_bytes() for path in entry.iterdir()}
    for each, content in forged({**files, name: change(files[name].decode()).encode()}).items():
        (entry / each).write_bytes(content)


class Hear(Callback[Simulation, Record]):
    """Passes every round on."""

    def __init__(self, hear: Callable[[Simulation, Record], object]) -> None:
        self.hear = hear

    def round(self, run: Simulation, seen: Record) -> None:
        self.hear(run, seen)
