"""The best weights of three clients, and the loss over all their weights: the paper's toy example."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbench.indicators.heterogeneity import Floats
from fedbench.metrics.base import Metric, Reader, TrialData, quartile_skewness, register_metric

if TYPE_CHECKING:
    import pandas as pd

TO_0, FROM_1_TO_2 = (2, -1, -1), (0, 1, -1)  # directions of the simplex's plane: towards client 0, across it
PLANE = np.array([np.array(d) / np.linalg.norm(d) for d in (TO_0, FROM_1_TO_2)])  # as axes [2, 3]


def best_weights(reduce: Callable[[Floats], Any]) -> Reader:
    """A reduction of the weights of three clients [rounds, 3] at which the test loss was the smallest."""

    def read(trial: TrialData) -> float | None:
        table = trial.table("simplex")
        if table.empty:
            return None
        best = table.loc[table.groupby("round")["loss"].idxmin(), ["lambda_0", "lambda_1", "lambda_2"]]
        value = float(reduce(best.to_numpy(float)))
        return value if np.isfinite(value) else None

    return read


def spread_along(direction: Sequence[float]) -> Reader:
    """The standard deviation over rounds of the best weights along a direction of the simplex's plane."""
    unit = np.array(direction) / np.linalg.norm(direction)
    return best_weights(lambda weights: (weights @ unit).std())


def off_centre(weights: Floats) -> float:
    """How far the mean over rounds of weights [rounds, 3] is from equal ones, which are by data size."""
    return float(np.linalg.norm(weights.mean(0) - 1 / 3))


def skewness_along(direction: Sequence[float]) -> Reader:
    """How lopsided the best weights are over rounds along a direction of the plane, by quartiles."""
    return best_weights(lambda weights: quartile_skewness(weights @ np.array(direction)))


def curvature(pick: Callable[[Floats], Any]) -> Reader:
    """What `pick` takes of the loss's Hessian [2, 2] on the plane of weights (to client 0, across), mean over rounds.

    It is that of the quadratic function which fits the landscape of a round best.
    """

    def read(trial: TrialData) -> float | None:
        table = trial.table("simplex")
        rounds = table.groupby("round") if len(table) else ()
        return float(np.mean([pick(_hessian(plane)) for _, plane in rounds])) if len(table) else None

    return read


def _hessian(plane: "pd.DataFrame") -> Floats:
    """Of the quadratic function that fits the loss over one round's weights best: [2, 2]."""
    a, b = PLANE @ plane[["lambda_0", "lambda_1", "lambda_2"]].to_numpy(float).T
    terms = np.stack([np.ones_like(a), a, b, a * a / 2, a * b, b * b / 2], 1)
    *_, aa, ab, bb = np.linalg.lstsq(terms, plane["loss"].to_numpy(float), rcond=None)[0]
    return np.array([[aa, ab], [ab, bb]])


register_metric(
    "best_lambda_0",
    Metric("best weight of client 0 on the simplex, mean over rounds", best_weights(lambda w: w[:, 0].mean()), 3),
)
register_metric("best_spread_0", Metric("spread of the best weights towards client 0", spread_along(TO_0), 3))
register_metric("best_spread_12", Metric("spread of the best weights from client 1 to 2", spread_along(FROM_1_TO_2), 3))
register_metric(
    "best_off_centre", Metric("distance of the best weights' mean from equal weights", best_weights(off_centre), 3)
)
register_metric("best_skewness_0", Metric("skewness of the best weights towards client 0", skewness_along(TO_0)))
register_metric(
    "best_skewness_12", Metric("skewness of the best weights from client 1 to 2", skewness_along(FROM_1_TO_2))
)
register_metric("curvature_0", Metric("curvature of the loss towards client 0", curvature(lambda h: h[0, 0]), 3))
register_metric("curvature_12", Metric("curvature of the loss from client 1 to 2", curvature(lambda h: h[1, 1]), 3))
register_metric("curvature_plane", Metric("curvature of the loss over weights, all directions", curvature(np.trace), 3))
