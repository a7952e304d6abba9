"""FedBE: FedDF with a Bayesian ensemble of teachers, Gaussian mode (Chen and Chao, 2021)."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

import torch
from torch import Tensor

from fedbench.base.fields import UnhashedDefault, Whole
from fedbench.base.tensors import on_device
from fedbench.methods.base import Cohort, Method, ProxyUse, Server, State, Update, register_method
from fedbench.methods.finetune import FinetuneSettings, Teacher, distil

VARIANCE_FLOOR = 1e-5
NOISE = 0.1


class FedBESettings(FinetuneSettings):
    """Distillation on the server, with teachers drawn from a Gaussian."""

    name: Literal["fedbe"] = "fedbe"
    epochs: Whole = 100
    """server epochs over the proxy set"""
    samples: Whole = 10
    """number of models drawn from the Gaussian"""
    teacher_mode: Annotated[Literal["eval", "train"], UnhashedDefault()] = "eval"
    """whether batch norm in teachers that are no clients goes by averaged statistics, or by those of each batch"""

    @property
    def proxy_use(self) -> ProxyUse:
        """Images only."""
        return "unlabelled"


def gaussian(cohort: Cohort, offsets: list[int]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [P] of the Gaussian over the clients' models, tensor by tensor.

    d_i = w_i - w_g, u_i = d_i / |d_i|; mu and s^2 >= 1e-5 are mean and variance of u_i over the clients; the mean is
    w_g + mean_i |d_i| mu, the standard deviation mean_i |d_i| 0.1 s.
    """
    mean, std = torch.empty_like(cohort.w), torch.empty_like(cohort.w)
    for span in (slice(*ends) for ends in pairwise(offsets)):
        d = cohort.W[:, span] - cohort.w[span]
        length = torch.linalg.vector_norm(d, dim=1, keepdim=True)
        u = torch.where(length > 0, d / length, 0.0)
        spread = u.var(0, correction=0).clamp(min=VARIANCE_FLOOR).sqrt()
        mean[span] = cohort.w[span] + length.mean() * u.mean(0)
        std[span] = length.mean() * NOISE * spread
    return mean, std


@register_method()
class FedBE(Method[FedBESettings]):
    """Teachers: the clients, the FedAvg model, and models sampled around them; equal weights, logits averaged."""

    Settings = FedBESettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by data sizes, then distil the ensemble."""
        return distil(cohort, state, server, self.settings, self.teachers(cohort, server))

    def teachers(self, cohort: Cohort, server: Server) -> Iterator[Teacher]:
        """All teachers with their running statistics; all but the clients take the averaged ones."""
        yield from (Teacher(w, buffers) for w, buffers in zip(cohort.W, cohort.B, strict=True))
        buffers, train = cohort.p @ cohort.B, self.settings.teacher_mode == "train"
        yield Teacher(cohort.combine(cohort.p), buffers, train)
        rng, (mean, std) = server.rng("fedbe"), gaussian(cohort, server.model.offsets)
        for _ in range(self.settings.samples):
            noise = on_device(rng.standard_normal(len(cohort.w)), cohort.w.device, cohort.w.dtype)
            yield Teacher(mean + std * noise, buffers, train)
