"""How much the clients' data differ, as measured on the partition of a trial."""

from collections.abc import Mapping

import numpy as np

from fedbench.indicators.heterogeneity import partition_heterogeneity
from fedbench.metrics.base import Metric, Reader, TrialData, register_metric


def measured(trial: TrialData) -> Mapping[str, float]:
    """Return what the summary holds or, for trials stored without it, what partition.csv gives; empty without either.

    A proxy set that takes part as a client is left out.
    """
    if "label_distance" in trial.summary:
        return trial.summary
    table, clients = trial.table("partition"), trial.settings().get("clients", {}).get("count")
    if table.empty or clients is None:
        return {}
    counts = table[table["client"] < clients].pivot(index="client", columns="class", values="samples").to_numpy()
    return partition_heterogeneity(counts.astype(np.int64))


def read(key: str) -> Reader:
    """Return the reader of one measure."""
    return lambda trial: measured(trial).get(key)


register_metric("label_distance", Metric("mean distance of the clients' label mixes", read("label_distance"), 3))
register_metric("size_variation", Metric("variation of the clients' sizes", read("size_variation"), 3))
register_metric("effective_clients", Metric("effective number of clients", read("effective_clients"), 1))
register_metric("smallest_client", Metric("samples of the smallest client", read("smallest_client"), 0))
register_metric("largest_client", Metric("samples of the largest client", read("largest_client"), 0))
