"""How well a cohort's data stand for all data, and how balanced each client's are."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fedbench.indicators.base import Column, Indicator, NoSettings, Observation, RoundContext, register_indicator

Floats = NDArray[np.float64]


def class_shares(counts: NDArray[np.int64]) -> Floats:
    """Class proportions p_ic of each client [n, C] from class counts [n, C]."""
    shares: Floats = counts / counts.sum(1, keepdims=True)
    return shares


def expected_accuracy(counts: NDArray[np.int64], by_class: Floats) -> Floats:
    """The accuracy [n] that is expected under the class mixes of clients with class counts [n, C].

    by_class: the accuracy of the global model on each class [1, C], or that of each client's own model [n, C].
    """
    shares = class_shares(counts)
    expected: Floats = shares @ by_class[0] if len(by_class) == 1 else (shares * by_class).sum(1)
    return expected


def heterogeneity_coherence(lambda_: Floats, cohort: Floats, overall: Floats) -> tuple[float, float]:
    """(coherence, cosine) of the cohort's weighted class mix sum_i lambda_i p_ic with the overall mix p_c.

    coherence = 1 - 0.5 * sum_c |sum_i lambda_i p_ic - p_c|, for lambda [m], cohort [m, C], overall [C].
    """
    mix = lambda_ @ cohort
    cosine = mix @ overall / (np.linalg.norm(mix) * np.linalg.norm(overall))
    return float(1 - 0.5 * np.abs(mix - overall).sum()), float(cosine)


def heterogeneity_degree(shares: Floats) -> Floats:
    """1 / (population variance over classes of p_ic) of each client [n]: the larger, the more balanced."""
    with np.errstate(divide="ignore"):
        degree: Floats = 1 / shares.var(1)
    return degree


def partition_heterogeneity(counts: NDArray[np.int64]) -> dict[str, float]:
    """Return how much the clients of a partition differ, from their class counts [n, C].

    label_distance: the mean over clients of the total variation distance 0.5 * sum_c |p_ic - p_c| between the class
    mix of a client and that of all data, from 0 (equal mixes) to below 1; size_variation: the standard deviation of
    the clients' sizes over their mean; effective_clients: (sum_i n_i)^2 / sum_i n_i^2, which is n for equal sizes and 1
    where one client has everything; smallest_client, largest_client: samples.
    """
    sizes, overall = counts.sum(1).astype(np.float64), counts.sum(0) / counts.sum()
    return {
        "label_distance": float(np.abs(class_shares(counts) - overall).sum(1).mean() / 2),
        "size_variation": float(sizes.std() / sizes.mean()),
        "effective_clients": float(sizes.sum() ** 2 / (sizes**2).sum()),
        "smallest_client": float(sizes.min()),
        "largest_client": float(sizes.max()),
    }


def weight_correlations(lambda_sums: Floats, sizes: Floats, degrees: Floats) -> dict[str, float | None]:
    """Pearson correlations over clients of accumulated weights with data size, heterogeneity degree, their product."""
    return {
        "pearson_size": _pearson(lambda_sums, sizes),
        "pearson_degree": _pearson(lambda_sums, degrees),
        "pearson_product": _pearson(lambda_sums, sizes * degrees),
    }


def _pearson(a: Floats, b: Floats) -> float | None:
    """None where it is not defined: one client, no variation, or an infinite degree."""
    if len(a) < 2 or not np.isfinite([*a, *b]).all() or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


@register_indicator()
class HeterogeneityCoherence(Indicator[NoSettings]):
    """How close the cohort's class mix is to that of all clients: under the weights used, and under data sizes."""

    name = "heterogeneity"

    def columns(self) -> Sequence[Column]:
        """Return columns that are recorded in every run."""
        return [
            Column(f"heterogeneity_{kind}{suffix}", f"heterogeneity {kind}{words}", short)
            for suffix, words, short in (("", "", "weights used"), ("_by_size", " by data sizes", "data sizes"))
            for kind in ("coherence", "cosine")
        ]

    def observe(self, settings: NoSettings, context: RoundContext) -> Observation:
        """Both weightings of the same cohort."""
        counts, values = context.federation.split.class_counts, dict[str, float | None]()
        shares, overall = class_shares(counts)[list(context.cohort.clients)], counts.sum(0) / counts.sum()
        for suffix, weights in (("", context.update.lambda_), ("_by_size", context.cohort.p)):
            if weights is None:
                continue
            value, cosine = heterogeneity_coherence(weights.to("cpu", torch.float64).numpy(), shares, overall)
            values |= {f"heterogeneity_coherence{suffix}": value, f"heterogeneity_cosine{suffix}": cosine}
        return Observation(values)
