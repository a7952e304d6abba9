"""Scores of the global model on the test set, and their spread over runs and over draws of the proxy set."""

from collections.abc import Sequence
from math import sqrt
from statistics import stdev

from fedbench.metrics.base import (
    MARGIN,
    METRICS,
    Metric,
    Reader,
    TrialData,
    column,
    early,
    register_metric,
    summary,
)

register_metric(
    "test_accuracy",
    Metric("test accuracy (%)", summary("final_accuracy", 100.0), better="higher", margin=MARGIN),
)
register_metric("test_loss", Metric("test loss", summary("final_loss"), 4, better="lower"))
register_metric(
    "early_accuracy",
    Metric("test accuracy, first tenth of the rounds (%)", column("test_accuracy", early, 100.0), margin=MARGIN),
)
for _which in ("last", "best"):
    _score = summary(f"{_which}_accuracy", 100.0)
    register_metric(
        f"{_which}_accuracy", Metric(f"test accuracy, {_which} round (%)", _score, better="higher", margin=MARGIN)
    )


def accuracy_spread(trials: Sequence[TrialData]) -> float | None:
    """The standard deviation of several trials' final accuracies, in points."""
    return 100 * stdev(float(trial.summary["final_accuracy"]) for trial in trials)


register_metric(
    "accuracy_spread",
    Metric("test accuracy, standard deviation over runs", lambda _: None, pool=accuracy_spread, alone=False),
)


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


def rounds_to(percent: float) -> Reader:
    """The first round that reaches a test accuracy, None if none does."""

    def read(trial: TrialData) -> float | None:
        rounds = trial.table("rounds")
        reached = rounds[rounds["test_accuracy"] >= percent / 100] if len(rounds) else rounds
        return float(reached["round"].min()) if len(reached) else None

    return read


def _rounds_to(percent: str) -> Metric | None:
    if not percent.replace(".", "", 1).isdigit() or float(percent) > 100:
        return None
    label = f"rounds to {float(percent):g} % test accuracy"
    return Metric(label, rounds_to(float(percent)), 1, better="lower", reaches=True)


METRICS.family("rounds_to_", "rounds_to_80", _rounds_to)
