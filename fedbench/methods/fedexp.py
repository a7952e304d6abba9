"""FedExP: a server step that grows with how far clients disagree (Jhunjhunwala et al., ICLR 2023)."""

from typing import Literal

import torch

from fedbench.base.fields import NonNegative
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method
from fedbench.methods.geometry import lengths, norm


class FedExPSettings(MethodSettings):
    """The step, and which model is scored."""

    name: Literal["fedexp"] = "fedexp"
    eps: NonNegative = 1e-3
    """keeps the step small where the mean update is"""
    average: bool = True
    """score the mean of the last two models, as its authors do: the steps make single models jump"""


@register_method()
class FedExP(Method[FedExPSettings]):
    """d_i = w_i - w_g, d = sum_i p_i d_i;  w_g <- w_g + eta d.

    eta = max(1, sum_i p_i |d_i|^2 / (2 (|d|^2 + eps))), the extrapolation of projections onto convex sets. Its authors'
    release takes m eps, and decays eps with the square of the learning rate; here it is the paper's constant.
    """

    Settings = FedExPSettings
    metrics = {"fedexp_step": "server step of FedExP"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by data sizes, then go further the same way."""
        mean = cohort.p @ cohort.W
        d = mean - cohort.w
        apart, together = cohort.p.to(torch.float64) @ lengths(cohort).square(), norm(d).square() + self.settings.eps
        step = max(1.0, float(apart / (2 * together))) if together > 0 else 1.0
        w = cohort.towards(mean if step == 1.0 else cohort.w + step * d)
        return Update(w=w, lambda_=cohort.p, metrics={"fedexp_step": step}, average=self.settings.average)
