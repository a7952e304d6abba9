"""Local gradient coherence: how well the clients' updates of one round agree."""

from collections.abc import Iterator

import torch
from torch import Tensor

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
    mass = float(weights.sum().square() - weights.square().sum())
    return float(total) / len(W), float(total) / mass if mass > 1e-12 else None


def _updates(w: Tensor, W: Tensor) -> Iterator[Tensor]:
    """g_i = w_g - w_i, a chunk of columns at a time."""
    columns = max(1, CHUNK // len(W))
    for start in range(0, W.shape[1], columns):
        span = slice(start, start + columns)
        yield w[span] - W[:, span]


def _inverse_length(squares: Tensor) -> Tensor:
    """1 / |g_i| from squared lengths, 0 for an update of length zero."""
    return torch.where(squares > 0, squares.clamp(min=0).rsqrt(), 0.0)
