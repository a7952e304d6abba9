"""Local gradient coherence: how well the clients' updates of one round agree."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import Strict
from fedbench.data.partitions import PARTITIONS
from fedbench.indicators.base import NOTHING, Column, Indicator, Observation, RoundContext, Rows, register_indicator

CHUNK = 1 << 18  # numbers at a time: temporaries stay in the cache, and float32 sums short


def pairwise_cosine(w: Tensor, W: Tensor) -> Tensor:
    """cos(g_i, g_j) of the local updates g_i = w_g - w_i, for w [P] and W [m, P]: [m, m] in float64.

    An update of length zero has cosine 0 with every other.
    """
    gram = torch.zeros(len(W), len(W), dtype=torch.float64, device=W.device)
    for g in _updates(w, W):
        gram += (g @ g.T).to(torch.float64)
    scale = _inverse_length(gram.diagonal())
    return gram * scale[:, None] * scale[None, :]


def cohort_coherence(w: Tensor, W: Tensor, lambda_: Tensor) -> tuple[float, float | None]:
    """(coherence_def, coherence_mean) of a cohort with weights lambda [m].

    def = (1/m) * sum_{i != j} lambda_i lambda_j cos(g_i, g_j), the paper's definition; mean = the same sum over
    sum_{i != j} lambda_i lambda_j, a weighted mean cosine (None where no pair has weight).

    With u_i = g_i / |g_i| the sum is |sum_i lambda_i u_i|^2 - sum_i lambda_i^2 |u_i|^2: no pair is formed.
    """
    weights = lambda_.to(torch.float64)
    squares = torch.zeros(len(W), dtype=torch.float64, device=W.device)
    for g in _updates(w, W):
        squares += torch.linalg.vector_norm(g, dim=1).to(torch.float64).square()
    scaled = weights * _inverse_length(squares)
    total = -(weights.square() * (squares > 0)).sum()
    for g in _updates(w, W):
        total += torch.linalg.vector_norm(scaled.to(g) @ g, dtype=torch.float64).square()
    whole, mass = torch.stack([total, weights.sum().square() - weights.square().sum()]).tolist()
    return whole / len(W), whole / mass if mass > 1e-12 else None


def _updates(w: Tensor, W: Tensor) -> Iterator[Tensor]:
    """g_i = w_g - w_i, a chunk of columns at a time."""
    columns = max(1, CHUNK // len(W))
    for start in range(0, W.shape[1], columns):
        span = slice(start, start + columns)
        yield w[span] - W[:, span]


def _inverse_length(squares: Tensor) -> Tensor:
    """1 / |g_i| from squared lengths, 0 for an update of length zero."""
    return torch.where(squares > 0, squares.clamp(min=0).rsqrt(), 0.0)


class CoherenceSettings(Strict):
    """Which groups of clients to compare."""

    coherence: Literal["off", "cohort", "pairwise"] = "cohort"
    """local gradient coherence: off, of the cohort (and of groups of clients), or of all pairs of clients too"""


@register_indicator()
class Coherence(Indicator[CoherenceSettings]):
    """How well the clients' gradients agree: all of them, and each group that the partition tells apart."""

    name = "coherence"
    Settings = CoherenceSettings
    tables = {"coherence": ("client", "other", "cosine")}

    def columns(self) -> Sequence[Column]:
        """Return the columns of the cohort, and of every group also the weight that it got."""
        label, short = "local gradient coherence", "all clients"
        whole = [
            Column("coherence_def", f"{label}, as defined", f"{short}, as defined", label, file="rounds"),
            Column("coherence_mean", label, short, file="rounds"),
        ]
        groups = [
            column
            for group in dict.fromkeys(group for _, partition in PARTITIONS.items() for group in partition.group_names)
            for column in (
                Column(f"coherence_def_{group}", f"{label} of {group} clients, as defined", f"{group}, as defined"),
                Column(f"coherence_mean_{group}", f"{label} of {group} clients", f"{group} clients"),
                Column(f"lambda_{group}", f"weight of {group} clients", f"{group} clients"),
            )
        ]
        return [*whole, *groups]

    def observe(self, settings: CoherenceSettings, context: RoundContext) -> Observation:
        """Weighted by data size, whatever weights the method used."""
        if settings.coherence == "off":
            return NOTHING
        cohort = context.cohort
        whole, mean = cohort_coherence(cohort.w, cohort.W, cohort.p)
        values = {"coherence_def": whole, "coherence_mean": mean, **dict(_groups(context))}
        return Observation(values, {"coherence": _pairs(context)} if settings.coherence == "pairwise" else {})


def _groups(context: RoundContext) -> Iterator[tuple[str, float | None]]:
    """Coherence within each group of clients, weighted by data size, and the weight that the group got."""
    cohort, update = context.cohort, context.update
    for group, members in context.federation.split.groups.items():
        rows = [row for row, client in enumerate(cohort.clients) if client in members]
        if len(rows) < 2:
            continue
        whole, mean = cohort_coherence(cohort.w, cohort.W[rows], cohort.p[rows] / cohort.p[rows].sum())
        yield f"coherence_def_{group}", whole
        yield f"coherence_mean_{group}", mean
        if update.lambda_ is not None:
            yield f"lambda_{group}", float(update.lambda_[rows].sum())


def _pairs(context: RoundContext) -> Rows:
    """The cosine of every pair of clients."""
    clients = context.cohort.clients
    cosine = pairwise_cosine(context.cohort.w, context.cohort.W).tolist()
    return [(clients[i], clients[j], cosine[i][j]) for i, j in combinations(range(len(clients)), 2)]
