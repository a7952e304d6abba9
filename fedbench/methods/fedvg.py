"""FedVG: weigh each client by the inverse norm of the proxy loss's gradient (Devkota et al., CVPR 2026 Findings)."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.base.fields import Positive
from fedbench.methods.base import Cohort, Method, MethodSettings, ProxyUse, Server, State, Update, register_method
from fedbench.methods.finetune import TEACHER_BATCH
from fedbench.models import LayerGroups, TensorSpan

EPSILON = 1e-8  # added to each norm, as in the authors' release


class FedVGSettings(MethodSettings):
    """Which gradients are compared: those of whole models, or those of each layer."""

    name: Literal["fedvg"] = "fedvg"
    groups: LayerGroups | None = None
    """null for one weight per client; tensor (the release's layer-wise mode) or module for one per client and layer"""
    order: Positive = 1.0
    """order of the norms of the gradient's tensors"""

    @property
    def proxy_use(self) -> ProxyUse:
        """The images and the labels."""
        return "labelled"


@register_method()
class FedVG(Method[FedVGSettings]):
    """lambda_i is proportional to 1 / (sum_t |grad_t L(w_i)|), with t over all tensors, or over those of each layer.

    L is the mean cross-entropy on the proxy set and |.| the 1-norm. A model that the proxy set would hardly change
    counts for much; data sizes do not count. In the layer-wise mode each layer has weights of its own, and lambda,
    which is recorded and averages running statistics, is their mean by numbers of parameters.

    Checked against the authors' release (alinadevkota/FedVG), whose default order of the norm and train mode (batch
    norm normalises by the proxy batch) this follows. The text of the paper (arXiv 2602.21399) could not be checked
    beyond its abstract. The release's spectral mode and its smoothing of weights over neighbouring layers are left out.
    """

    Settings = FedVGSettings
    metrics = {"fedvg_norm": "norm of the proxy gradient at the clients' models, mean"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Compute every client's gradient on the same batches, then weigh clients, as a whole or layer by layer."""
        norms = self.norms(cohort, server)
        found = {"fedvg_norm": float(norms.sum(1).mean())}
        groups, tensors = self.settings.groups, cohort.layers.tensors
        if groups is None:
            lambda_ = inverse(norms.sum(1)).to(cohort.p)
            return Update(w=cohort.combine(lambda_), lambda_=lambda_, metrics=found)
        mean, whole = torch.empty_like(cohort.w), torch.zeros_like(norms[:, 0])
        for span in cohort.layers.by(groups):
            inside = [k for k, tensor in enumerate(tensors) if span.start <= tensor.start < span.stop]
            weights = inverse(norms[:, inside].sum(1))
            mean[span.at] = weights.to(cohort.W) @ cohort.W[:, span.at]
            whole += (span.stop - span.start) / len(cohort.w) * weights
        return Update(w=cohort.towards(mean), lambda_=whole.to(cohort.p), metrics=found)

    def norms(self, cohort: Cohort, server: Server) -> Tensor:
        """The norm of each tensor of each client's proxy gradient [m, tensors], float64."""
        batches = server.proxy.batches(server.rng("fedvg"), TEACHER_BATCH)
        order, tensors = self.settings.order, cohort.layers.tensors
        return torch.stack(
            [
                tensor_norms(proxy_gradient(server, w, buffers, batches), tensors, order)
                for w, buffers in zip(cohort.W, cohort.B, strict=True)
            ]
        )


def proxy_gradient(server: Server, w: Tensor, buffers: Tensor, batches: list[Tensor]) -> Tensor:
    """The gradient [P] of the mean proxy loss over some batches at a model w [P] with statistics [Q], in float64."""
    model, proxy = server.model, server.proxy
    total = torch.zeros_like(w, dtype=torch.float64)
    model.load(w, buffers)
    model.train()
    for index in batches:
        model.backward(F.cross_entropy(model(proxy.x[index]), proxy.y[index], reduction="sum"))
        total += model.grad
    return total / max(1, sum(len(index) for index in batches))


def tensor_norms(gradient: Tensor, tensors: tuple[TensorSpan, ...], order: float) -> Tensor:
    """The norm of each tensor of a gradient [P]."""
    return torch.stack([torch.linalg.vector_norm(gradient[span.at], ord=order) for span in tensors])


def inverse(norms: Tensor) -> Tensor:
    """Weights on the simplex, proportional to inverse norms [m]."""
    weights = 1 / (norms + EPSILON)
    return weights / weights.sum()
