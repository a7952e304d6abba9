"""Products, lengths and angles of the clients' models, in float64, without a float64 copy of all of W.

All go by blocks of columns: one pass over W, nothing of size m * m * P.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fedbench.methods.base import Cohort

COLUMNS = 4096  # of a block: it stays in the processor's cache


def blocks(columns: int) -> Iterator[slice]:
    """Spans of at most COLUMNS columns."""
    return (slice(start, start + COLUMNS) for start in range(0, columns, COLUMNS))


def about(W: Tensor, centre: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of W - c [m, columns] in float64, for models W [m, P] and a centre c [P], each with its columns."""
    for part in blocks(W.shape[1]):
        yield part, W[:, part].to(torch.float64, copy=True).sub_(centre[part])


def gram(W: Tensor, centre: Tensor) -> Tensor:
    """<w_i - c, w_j - c> [m, m] in float64, of models W [m, P] about a centre c [P].

    Differences are exact (float64 minus float32), and a squared distance taken from it errs by 1e-16 of the squared
    distances to the centre: for a centre as near as the old global model that is less than what float32 models can
    differ by in all their coordinates.
    """
    total = torch.zeros(len(W), len(W), dtype=torch.float64, device=W.device)
    for _, X in about(W, centre):
        total.addmm_(X, X.T)
    return symmetric(total)


def symmetric(G: Tensor) -> Tensor:
    """The same without what rounding did to one side alone, so that equal distances are equal."""
    return (G + G.T) / 2


def project(cohort: Cohort, direction: Tensor) -> Tensor:
    """<w_i - w_g, v> [m] with a direction v [P], float64."""
    total = torch.zeros(len(cohort.W), dtype=torch.float64, device=cohort.W.device)
    for part, X in about(cohort.W, cohort.w):
        total.addmv_(X, direction[part].to(torch.float64))
    return total


def lengths(cohort: Cohort) -> Tensor:
    """|w_i - w_g| [m], float64."""
    total = torch.zeros(len(cohort.W), dtype=torch.float64, device=cohort.W.device)
    for _, X in about(cohort.W, cohort.w):
        total += X.square_().sum(1)
    return total.sqrt()


def norm(v: Tensor) -> Tensor:
    """|v|, a 0-d tensor, float64."""
    length: Tensor = torch.linalg.vector_norm(v, dtype=torch.float64)
    return length


def cosines(dots: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """<a, b> / (|a| |b|) within [-1, 1], from products and lengths; 0 where a length is 0."""
    product = one * other
    return torch.where(product > 0, dots / product, 0.0).clamp(-1.0, 1.0)
