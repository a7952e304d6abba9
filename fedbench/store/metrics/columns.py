"""Any column of rounds.csv, and any indicator, as a metric: what it is in the last rounds."""

from fedbench.simulation.record import columns
from fedbench.store.metrics.base import METRICS, Metric, column, indicator, late


def late_of(name: str) -> Metric | None:
    """The mean of a column over the last 10 rounds; None if there is no such column."""
    known = columns().get(name)
    if known is None:
        return None
    read = column(name, late, known.factor) if known.file == "rounds" else indicator(name, late)
    return Metric(f"{known.label}, last 10 rounds", read, 4)


METRICS.family("late_", "late_train_loss", late_of)
