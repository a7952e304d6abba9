"""FedDisco: data sizes, less where a client's labels are far from the target's (Ye et al., ICML 2023)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import NonNegative
from fedbench.methods.base import Cohort, Method, MethodSettings, Report, Server, State, Update, register_method

Discrepancy = Literal["kl", "l1", "l2", "cosine"]


class FedDiscoSettings(MethodSettings):
    """How strongly the discrepancy changes the weights."""

    name: Literal["feddisco"] = "feddisco"
    a: NonNegative = 0.5
    """weight of the discrepancy; 0 with b 0 is FedAvg"""
    b: NonNegative = 0.1
    """added to every client's weight"""
    discrepancy: Discrepancy = "kl"
    """how a client's label distribution is compared with the uniform one"""

    @property
    def reports(self) -> tuple[Report, ...]:
        """Return how many samples of each class a client has."""
        return ("class_counts",)


@register_method()
class FedDisco(Method[FedDiscoSettings]):
    """lambda_i proportional to max(0, p_i - a d_i + b), d_i the share of client i in the sum of all discrepancies.

    The target is the uniform distribution over all classes. Where no weight is left, data sizes are taken.
    """

    Settings = FedDiscoSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by sizes and discrepancies."""
        s, p = self.settings, cohort.p.to(torch.float64)
        d = discrepancies(cohort.class_counts, s.discrepancy)
        share = d / d.sum() if d.sum() > 0 else d
        weight = (p - s.a * share + s.b).clamp(min=0.0)
        lambda_ = (weight / weight.sum()).to(cohort.p) if weight.sum() > 0 else cohort.p
        return Update(w=cohort.combine(lambda_), lambda_=lambda_)


def discrepancies(counts: Tensor, kind: Discrepancy) -> Tensor:
    """Return how far each client's label distribution, of counts [m, C], is from the uniform one [m], float64."""
    shares = counts.to(torch.float64) / counts.sum(1, keepdim=True)
    C = shares.shape[1]
    if kind == "kl":
        return torch.xlogy(shares, shares * C).sum(1)
    if kind == "l1":
        return (shares - 1 / C).abs().sum(1)
    if kind == "l2":
        return (shares - 1 / C).square().sum(1).sqrt()
    return 1 - shares.sum(1) / (C * shares.square().sum(1)).sqrt()
