"""The accuracy of clients in a study's trials: a table that every study has, and every client of every trial."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from fedbench.analysis.tables import Place, fill_tables
from fedbench.analysis.values import Trials, finished
from fedbench.metrics.clients import client_accuracies
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.parts import TableSpec

TABLE = "clients"  # its name, and that of its files
METRICS_SHOWN = ["client_accuracy", "worst_client", "client_spread"]


@dataclass(frozen=True)
class ClientsTable:
    """The table of the accuracy of clients: a copy of the study with this table alone, and the table's cells."""

    study: ScaledStudy
    filled: Sequence[Place]


def clients_table(study: ScaledStudy, trials: Trials) -> ClientsTable | None:
    """Return the table: the study's cells, three metrics each.

    None if the study has one of its own, or no trial has values.

    It stands apart from the study's own tables, so that the numbers of those are all that is compared between studies.
    """
    if any("worst_client" in table.metrics for table in study.study.tables.values()):
        return None
    several = [axis for axis, labels in study.whole.items() if len(labels) > 1]
    columns = [axis for axis in next(iter(study.study.tables.values())).columns if axis in several]
    table = TableSpec(rows=[axis for axis in several if axis not in columns], columns=columns, value=METRICS_SHOWN)
    alone = replace(study, study=study.study.model_copy(update={"tables": {TABLE: table}, "reference": None}))
    filled = fill_tables(alone, trials)[TABLE]
    return ClientsTable(alone, filled) if any(place.numbers["n"] for place in filled) else None


def clients_frame(study: ScaledStudy, trials: Trials) -> pd.DataFrame:
    """Return a row for each client of each trial: labels, seed, hash, client, samples, accuracy, basis.

    Accuracies are fractions. The basis is `measured`, on so many samples that the client holds out, or `expected` under
    the label mix of the client's samples. Trials of whose clients nothing is known have no rows.
    """
    parts = []
    for cell in study.cells:
        for seed, config in cell.trials.items():
            trial = finished(trials, config.hash)
            found = client_accuracies(trial) if trial else None
            if found is None:
                continue
            rows = {"client": found.clients, "samples": found.samples, "accuracy": found.accuracy}
            place = {**cell.labels, "seed": seed, "hash": config.hash}
            parts.append(pd.DataFrame({**place, **rows, "basis": "measured" if found.measured else "expected"}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
