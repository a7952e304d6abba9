"""Global weight shrinking: the optimisation term, the regularisation term, and their ratio."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedbench.indicators.base import Column, Indicator, NoSettings, Observation, RoundContext, register_indicator


class Shrinking(NamedTuple):
    """Norms of gamma * eta_g * g_g and (1 - gamma) * w_g, and r, their ratio (None where gamma is 1)."""

    norm_opt: float
    norm_reg: float
    r: float | None


def shrinking(w: Tensor, mean: Tensor, gamma: float, global_lr: float) -> Shrinking:
    """Terms of w_g' = w_g - gamma eta_g g_g - (1 - gamma) w_g, for w_g [P] before the update.

    mean [P] = lambda @ W, so g_g = w_g - mean; running statistics are not part of either.
    """
    step, length = torch.stack([torch.linalg.vector_norm(v, dtype=torch.float64) for v in (w - mean, w)]).tolist()
    norm_opt, norm_reg = abs(gamma * global_lr) * step, abs(1 - gamma) * length
    return Shrinking(norm_opt, norm_reg, norm_opt / norm_reg if abs(1 - gamma) >= 1e-8 and norm_reg > 0 else None)


@register_indicator()
class ShrinkingTerms(Indicator[NoSettings]):
    """Gamma, what shrinking and optimisation each do to the global model, and its length."""

    name = "shrinking"

    def columns(self) -> Sequence[Column]:
        """Always recorded. r is a ratio, which has no bound where gamma passes through 1."""
        return (
            Column("gamma", "gamma", file="rounds"),
            Column("r", "r, gradient over shrinking", log=True, file="rounds"),
            Column("norm_opt", "norm of the global gradient", "global gradient", "norm", file="rounds"),
            Column("norm_reg", "norm of the shrinking term", "shrinking term", "norm", file="rounds"),
            Column("norm_w", "norm of the global model", file="rounds"),
        )

    def observe(self, settings: NoSettings, context: RoundContext) -> Observation:
        """The terms of this round's update."""
        cohort, update = context.cohort, context.update
        if update.lambda_ is None:  # all that is known of the rule is where it led
            terms = shrinking(cohort.w, update.w, 1.0, 1.0)
        else:
            terms = shrinking(cohort.w, update.lambda_ @ cohort.W, update.gamma, cohort.global_lr)
        norm_w = float(torch.linalg.vector_norm(update.w, dtype=torch.float64))
        return Observation({"gamma": update.gamma, **terms._asdict(), "norm_w": norm_w})
