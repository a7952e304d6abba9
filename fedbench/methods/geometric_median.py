"""Geometric median: the point with the least weighted sum of distances to the models (Pillutla et al., 2022)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import Count, NonNegative, Positive
from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.robust import RobustSettings, distances_to, seen


class GeometricMedianSettings(RobustSettings):
    """Weiszfeld's iteration. Only mixing uses f."""

    name: Literal["geometric_median"] = "geometric_median"
    nu: Positive = 1e-6
    """smallest distance that a model's weight is divided by"""
    tolerance: NonNegative = 1e-8
    """it has converged when no weight changes by more"""
    iterations: Count = 1000
    """at most so many"""


@register_method()
class GeometricMedian(Method[GeometricMedianSettings]):
    """w_g' = argmin_z sum_i p_i |z - w_i|, smoothed, for data-size weights p.

    From z = sum_i p_i w_i, until convergence: b_i = p_i / max(nu, |z - w_i|), lambda = b / sum_j b_j,
    z = sum_i lambda_i w_i. (RFA: Pillutla, Kakade and Harchaoui: Robust aggregation for federated learning, 2022.)
    """

    Settings = GeometricMedianSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The mean with the weights that the iteration ends with."""
        mix, G = seen(cohort, self.settings, cohort.w)
        found = weiszfeld(G, cohort.p.cpu().to(torch.float64), self.settings)
        lambda_ = mix.weights(found).to(cohort.p)
        return Update(w=cohort.combine(lambda_), lambda_=lambda_)


def weiszfeld(G: Tensor, p: Tensor, settings: GeometricMedianSettings) -> Tensor:
    """The final lambda [m], from the models' Gram matrix [m, m] and their weights p [m]."""
    lambda_ = p / p.sum()
    for _ in range(settings.iterations):
        b = p / distances_to(lambda_, G).clamp_(min=settings.nu)
        before, lambda_ = lambda_, b / b.sum()
        if float((lambda_ - before).abs().max()) <= settings.tolerance:
            break
    return lambda_
