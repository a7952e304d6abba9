"""Global weight shrinking: the optimisation term, the regularisation term, and their ratio."""

from typing import NamedTuple

import torch
from torch import Tensor


class Shrinking(NamedTuple):
    """Norms of gamma * eta_g * g_g and (1 - gamma) * w_g, and r, their ratio (None where gamma is 1)."""

    norm_opt: float
    norm_reg: float
    r: float | None


def shrinking(w: Tensor, mean: Tensor, gamma: float, global_lr: float) -> Shrinking:
    """Terms of w_g' = w_g - gamma eta_g g_g - (1 - gamma) w_g, for w_g [P] before the update.

    mean [P] = lambda @ W, so g_g = w_g - mean; running statistics are not part of either.
    """
    norm_opt = abs(gamma * global_lr) * float(torch.linalg.vector_norm(w - mean, dtype=torch.float64))
    norm_reg = abs(1 - gamma) * float(torch.linalg.vector_norm(w, dtype=torch.float64))
    return Shrinking(norm_opt, norm_reg, norm_opt / norm_reg if abs(1 - gamma) >= 1e-8 and norm_reg > 0 else None)
