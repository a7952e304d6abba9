"""FedNova: normalised averaging, so that more local steps do not mean more say (Wang et al., NeurIPS 2020)."""

from typing import Literal

import torch

from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method


class FedNovaSettings(MethodSettings):
    """FedNova has no settings."""

    name: Literal["fednova"] = "fednova"


@register_method()
class FedNova(Method[FedNovaSettings]):
    """w_g <- w_g + (sum_i p_i a_i) sum_i p_i (w_i - w_g) / a_i, with a_i the length of client i's path.

    a_i is the number of local steps for plain SGD, and counts momentum in otherwise (`LocalWork.path`). As weights:
    lambda_i = (p_i / a_i) / s with s = sum_j p_j / a_j, and a server step of s * sum_j p_j a_j. With equal steps this
    is FedAvg.
    """

    Settings = FedNovaSettings
    metrics = {"fednova_step": "server step of FedNova"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average updates per unit of path, then take the mean path."""
        p, a = cohort.p.to(torch.float64), cohort.work.path.clamp(min=1.0)  # who took no step has not moved
        per_path = p / a
        lambda_, step = (per_path / per_path.sum()).to(cohort.p), float(per_path.sum() * (p @ a))
        mean = cohort.w + step * (lambda_ @ cohort.W - cohort.w)
        return Update(w=cohort.towards(mean), lambda_=lambda_, metrics={"fednova_step": step})
