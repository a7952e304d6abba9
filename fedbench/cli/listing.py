"""What --list shows, with as little imported as can be."""

import argparse
from typing import Any

from fedbench.cli.conduct import Rows
from fedbench.specs.expand import expand_study, load_study, study_files
from fedbench.specs.names import ScaleName
from fedbench.specs.space import expand_space, space_files
from fedbench.store.store import Store

LISTED: tuple[ScaleName, ...] = ("quick", "desk", "paper")


def study_rows(options: argparse.Namespace) -> Rows:
    """The built-in studies: name, what it shows, trials of each scale, how many are done."""
    store, rows = Store(options.out), Rows()
    for name in study_files():
        stem, study = load_study(name)
        row: dict[str, Any] = {"name": name, "shows": study.shows, **dict.fromkeys(LISTED)}
        for scale in (scale for scale in LISTED if scale in study.scales):
            trials = expand_study(stem, study, scale, changes={}, only={}, seeds=None).trials
            done = sum(store.status(hash_) in ("done", "diverged") for hash_ in trials)
            row[scale] = {"trials": len(trials), "done": done}
        rows.append(row)
    return rows


def space_rows(options: argparse.Namespace) -> Rows:
    """The built-in spaces: name, what it tunes, methods, suggestions for each at every scale."""
    rows = Rows()
    for name in space_files():
        scaled = {scale: expand_space(name, scale, changes={}) for scale in ("quick", "paper")}
        budget = {scale: space.trials for scale, space in scaled.items()}
        methods = [arm.label for arm in scaled["quick"].arms]
        rows.append({"name": name, "tunes": scaled["quick"].space.tunes, "methods": methods, **budget})
    return rows
