"""Stores filled by hand, to see what is made of them."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pandas as pd

from fedbench.analysis.tables import fill_tables
from fedbench.analysis.values import Trials
from fedbench.base.settings import dump_yaml
from fedbench.render.study_sheets import table_sheet
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import Store

# A small study of two alphas and three gammas, without seeds, tables and scales.
MINE = """
title: Mine
shows: Something.
base: {data.train_size: 200, data.test_size: 200, clients.count: 2, rounds: 2, method.name: fixed_gamma}
grid:
  data.alpha: [100, 1]
  method.gamma: [1.0, 0.9, 0.8]
baseline: {method.gamma: 1.0}
"""


def summary(accuracy: float) -> dict[str, Any]:
    scores = {f"{kind}_accuracy": accuracy for kind in ("final", "best", "last")}
    return {
        **scores,
        "rounds": 2,
        "seconds_train": 1.0,
        "seconds_server": 0.1,
        "seconds_eval": 0.1,
        "peak_memory_bytes": 2**20,
    }


ROUNDS = "round,test_accuracy,test_loss\n1,0.1,2.0\n2,0.2,1.5\n"


def fill(
    store: Store,
    study: ScaledStudy,
    outcome: Callable[[Mapping[str, Any], int], Any],
    rounds: Any = ROUNDS,
    *,
    config_file: bool = False,
) -> None:
    """Put an entry for every trial that `outcome(labels, seed)` gives something for.

    That is an accuracy, a summary, a status, or `status: reason`.

    rounds: its rounds.csv, or a function of the same arguments that gives it; config_file: whether to write a
    config.yaml.
    """
    for cell in study.cells:
        for seed, config in cell.trials.items():
            found = outcome(cell.labels, seed)
            if found is None:
                continue
            status, _, reason = found.partition(": ") if isinstance(found, str) else ("done", "", "")
            with store.entry(config.hash) as folder:
                if config_file:
                    (folder / "config.yaml").write_text(dump_yaml(config.plain()))
                (folder / "rounds.csv").write_text(rounds(cell.labels, seed) if callable(rounds) else rounds)
                (folder / "partition.csv").write_text("client,class,samples\n0,0,5\n0,1,4\n1,0,3\n1,1,4\n")
                (folder / "clients.csv").write_text("round,client,lambda,samples\n1,0,0.6,9\n1,1,0.4,7\n")
                environment = {"device_name": "x", "threads": 1, "torch": "2", "fedbench": "0"}
                (folder / "environment.json").write_text(json.dumps(environment))
                content = found if isinstance(found, dict) else summary(found) if status == "done" else {}
                why = None if status == "done" else reason or "why"
                store.commit(folder, config.hash, cast(Any, status), why, content)


def on_screen(study: ScaledStudy, trials: Trials, name: str, bold: tuple[str, str] = ("<", ">")) -> pd.DataFrame:
    """A table as people read it, the best in angle brackets."""
    shown = table_sheet(study, name, fill_tables(study, trials)[name])
    return pd.DataFrame(shown.texts(lambda entry: entry.text("+", bold)), columns=list(shown.heads))
