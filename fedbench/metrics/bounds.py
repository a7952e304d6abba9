"""The share of the gap between local only and centralised training that a method closes.

It is 100 (a - l) / (c - l) for what a trial (a), the clients on their own (l) and centralised training (c) of the same
seed and the same other settings have for another metric: 0 for `local_only`, 100 for `centralised`. It is not defined
where one of the bounds is missing or has no number, or where centralised training is no better.
"""

from collections.abc import Mapping
from typing import Any

import fedbench.metrics.clients
import fedbench.metrics.scores  # noqa: F401  the metrics of both are built on
from fedbench.metrics.base import METRICS, Metric, TrialData, register_metric

CENTRALISED, LOCAL = "centralised", "local_only"
LABEL = "gap from local only to centralised that is closed (%)"


def gap_closed(own: float | None, local: float | None, central: float | None, sign: int = 1) -> float | None:
    """The share in %; sign: 1 where higher numbers are better, -1 where lower ones are."""
    if own is None or local is None or central is None or sign * (central - local) <= 0:
        return None
    return 100 * (own - local) / (central - local)


def _of(metric: Metric, label: str) -> Metric:
    def compare(trial: TrialData, bounds: Mapping[str, Any]) -> float | None:
        sign = -1 if metric.better == "lower" else 1
        return gap_closed(metric.read(trial), metric.read(bounds[LOCAL]), metric.read(bounds[CENTRALISED]), sign)

    return Metric(label, lambda _: None, 1, better="higher", beside=(LOCAL, CENTRALISED), compare=compare)


def _gap_closed(name: str) -> Metric | None:
    if name not in METRICS or name.startswith("gap_closed"):
        return None
    metric = METRICS.get(name)
    if metric.better is None or metric.pool or metric.beside:
        return None
    return _of(metric, f"{LABEL}: {metric.label}")


register_metric("gap_closed", _of(METRICS.get("test_accuracy"), LABEL))
METRICS.family("gap_closed_", "gap_closed_worst_client", _gap_closed)
