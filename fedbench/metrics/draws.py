"""How much a result depends on which images form the proxy set."""

from collections.abc import Sequence
from math import sqrt
from statistics import stdev

from fedbench.metrics.base import Metric, TrialData, register_metric


def draw_spread(trials: Sequence[TrialData]) -> float | None:
    """The standard deviation of final accuracies over draws of the proxy set, in points, as if the pool had no end.

    Draws of n out of N images without replacement overlap, which makes a variance 1 - n / N of what independent draws
    have; so the standard deviation is divided by the root of that. None where all images of the pool are drawn.
    """
    proxy = trials[0].settings()["proxy"]
    size, pool = int(proxy["size"]), int(proxy["pool"] or proxy["size"])
    if size >= pool:
        return None
    observed = stdev(float(trial.summary["final_accuracy"]) for trial in trials)
    return 100 * observed / sqrt(1 - size / pool)


register_metric(
    "draw_spread",
    Metric(
        "test accuracy, standard deviation over draws of the proxy set",
        lambda _: None,
        pool=draw_spread,
        alone=False,
    ),
)
