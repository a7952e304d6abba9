"""Local gradient coherence: how well the clients' updates of one round agree."""

import torch
from torch import Tensor

CHUNK = 1 << 20  # columns at a time: keeps the temporary small beside W [m, P]


def pairwise_cosine(w: Tensor, W: Tensor) -> Tensor:
    """cos(g_i, g_j) of the local updates g_i = w_g - w_i, for w [P] and W [m, P]: [m, m] in float64.

    An update of length zero has cosine 0 with every other.
    """
    m = len(W)
    gram = torch.zeros(m, m, dtype=torch.float64, device=W.device)
    for start in range(0, W.shape[1], CHUNK):
        span = slice(start, start + CHUNK)
        g = w[span] - W[:, span]
        gram += (g @ g.T).to(torch.float64)
    length = gram.diagonal().clamp(min=0).sqrt()
    scale = torch.where(length > 0, 1 / length, 0.0)
    return gram * scale[:, None] * scale[None, :]


def cohort_coherence(cosine: Tensor, lambda_: Tensor) -> tuple[float, float | None]:
    """(coherence_def, coherence_mean) of a cohort with weights lambda [m].

    def = (1/m) * sum_{i != j} lambda_i lambda_j cos(g_i, g_j), the paper's definition; mean = the same sum over
    sum_{i != j} lambda_i lambda_j, a weighted mean cosine (None where no pair has weight).
    """
    weights = torch.outer(lambda_, lambda_).to(cosine)
    weights.fill_diagonal_(0)
    total, mass = float((weights * cosine).sum()), float(weights.sum())
    return total / len(lambda_), total / mass if mass > 0 else None
