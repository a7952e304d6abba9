"""Lengths and angles of the clients' updates d_i = w_i - w_g, in float64, without a float64 copy of all of W."""

from collections.abc import Iterator

import torch
from torch import Tensor

from fedbench.methods.base import Cohort

BLOCK = 1 << 16  # columns at a time: a block of a cohort's updates stays in the cache


def blocks(P: int) -> Iterator[slice]:
    """The columns of [m, P], so many at a time."""
    for start in range(0, P, BLOCK):
        yield slice(start, min(start + BLOCK, P))


def updates(cohort: Cohort, part: slice) -> Tensor:
    """Columns of d_i = w_i - w_g [m, columns], float64."""
    return cohort.W[:, part].to(torch.float64) - cohort.w[part].to(torch.float64)


def gram(cohort: Cohort) -> Tensor:
    """<d_i, d_j> [m, m], float64: one pass over W."""
    m = len(cohort.W)
    total = torch.zeros(m, m, dtype=torch.float64, device=cohort.W.device)
    for part in blocks(len(cohort.w)):
        d = updates(cohort, part)
        total.addmm_(d, d.T)
    return total


def project(cohort: Cohort, direction: Tensor) -> Tensor:
    """<d_i, v> [m] with a direction v [P], float64: one pass over W."""
    total = torch.zeros(len(cohort.W), dtype=torch.float64, device=cohort.W.device)
    for part in blocks(len(cohort.w)):
        total.addmv_(updates(cohort, part), direction[part].to(torch.float64))
    return total


def lengths(cohort: Cohort) -> Tensor:
    """|d_i| [m], float64: one pass over W."""
    total = torch.zeros(len(cohort.W), dtype=torch.float64, device=cohort.W.device)
    for part in blocks(len(cohort.w)):
        total += updates(cohort, part).square().sum(1)
    return total.sqrt()


def norm(v: Tensor) -> Tensor:
    """|v|, a 0-d tensor, float64."""
    length: Tensor = torch.linalg.vector_norm(v, dtype=torch.float64)
    return length


def cosines(dots: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """<a, b> / (|a| |b|) within [-1, 1], from products and lengths; 0 where a length is 0."""
    product = one * other
    return torch.where(product > 0, dots / product, 0.0).clamp(-1.0, 1.0)
