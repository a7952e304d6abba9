"""FedLWS: layer-wise weight shrinking of any method's aggregate, without proxy data (Shi et al., ICLR 2025)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import NonNegative
from fedbench.base.tensors import on_device
from fedbench.methods.base import (
    METHODS,
    AnyMethod,
    BatchNormRule,
    Cohort,
    Correction,
    Method,
    MethodSettings,
    ProxyUse,
    Report,
    Server,
    State,
    Update,
    register_method,
)
from fedbench.methods.fedavg import FedAvgSettings
from fedbench.methods.geometry import norm
from fedbench.models import LayerGroups


class FedLWSSettings(MethodSettings):
    """Which models are shrunk, and how strongly."""

    name: Literal["fedlws"] = "fedlws"
    inner: AnyMethod = FedAvgSettings()
    """the method whose aggregate is shrunk, with its settings"""
    beta: NonNegative = 0.03
    """tau of a layer over the clients' mean distance from their mean; 0 with min_tau 0 leaves the aggregate as it is"""
    min_tau: NonNegative = 0.01
    """tau is at least this (its authors' release; the paper has no bound: 0)"""
    max_tau: NonNegative | None = 0.2
    """tau is at most this (its authors' release); null for no bound, as in the paper"""
    groups: LayerGroups = "module"
    """what a layer is: a module with all its parameters, or every tensor by itself"""

    @property
    def methods(self) -> tuple[str, ...]:
        """This one and what it wraps."""
        return (self.name, *self.inner.methods)

    @property
    def proxy_use(self) -> ProxyUse:
        """As the method inside."""
        return self.inner.proxy_use

    @property
    def proxy_as_client(self) -> bool:
        """As the method inside."""
        return self.inner.proxy_as_client

    @property
    def proxy_repeated(self) -> bool:
        """As the method inside says."""
        return self.inner.proxy_repeated

    @property
    def reports(self) -> tuple[Report, ...]:
        """As the method inside."""
        return self.inner.reports

    @property
    def extra_vectors(self) -> tuple[int, int]:
        """As the method inside."""
        return self.inner.extra_vectors

    def check(self, cohort: int) -> str | None:
        """As the method inside, and bounds in their order."""
        if self.max_tau is not None and self.max_tau < self.min_tau:
            return f"method.max_tau = {self.max_tau}: must be at least method.min_tau, {self.min_tau}"
        if self.inner.training != "federated":
            return f"method.inner.name = {self.inner.name}: has no aggregate to shrink; must be a method that has one"
        complaint = self.inner.check(cohort)
        return complaint and complaint.replace("method.", "method.inner.")

    def canonical(self) -> dict[str, object]:
        """With the inner method's own form."""
        return {**super().canonical(), "inner": self.inner.canonical()}


@register_method()
class FedLWS(Method[FedLWSSettings]):
    """w_l <- gamma_l v_l, for each layer l of the inner method's aggregate v.

    gamma_l = |w_l| / (|w_l| + tau_l |v_l - w_l|), w the global model before, and
    tau_l = beta * mean_i |w_i,l - mean_j w_j,l|, within its bounds.

    Parameters only: its authors' release walks the state dict instead, so that with batch norm the running statistics,
    their step counter among them, fall into the layers' norms and are shrunk. A layer that was zero is left as it is.
    """

    Settings = FedLWSSettings
    metrics = {"lws_gamma": "layer-wise gamma, mean over layers", "lws_gamma_least": "layer-wise gamma, least"}

    def __init__(self, settings: FedLWSSettings) -> None:
        super().__init__(settings)
        self.inner = METHODS.get(settings.inner.name)(settings.inner)

    @classmethod
    def default_bn(cls, settings: Mapping[str, object]) -> BatchNormRule:
        """That of the method inside."""
        inner = settings.get("inner")
        if not isinstance(inner, Mapping) or inner.get("name", "fedavg") not in METHODS:
            return cls.bn
        return METHODS.get(inner.get("name", "fedavg")).default_bn(inner)

    def announced(self) -> Mapping[str, str]:
        """Its own, and those of the method inside."""
        return {**self.metrics, **self.inner.announced()}

    def start(self, num_clients: int, w: Tensor) -> State:
        """That of the method inside: there is nothing else to remember."""
        return self.inner.start(num_clients, w)

    def correction(self, state: State, client: int, w: Tensor) -> Correction | None:
        """That of the method inside."""
        return self.inner.correction(state, client, w)

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Aggregate as the method inside does, then shrink layer by layer."""
        update = self.inner.aggregate(cohort, state, server)
        spans = cohort.layers.by(self.settings.groups)
        gammas = torch.stack([self.gamma(cohort, update.w, span.at) for span in spans])
        widths = on_device([span.stop - span.start for span in spans], gammas.device)
        factors = gammas.to(update.w).repeat_interleave(widths, output_size=len(update.w))
        found = {"lws_gamma": float(gammas.mean()), "lws_gamma_least": float(gammas.min())}
        return replace(update, w=update.w * factors, metrics={**update.metrics, **found})

    def gamma(self, cohort: Cohort, aggregate: Tensor, layer: slice) -> Tensor:
        """gamma_l, a 0-d tensor, float64, for an inner aggregate [P]."""
        s, W = self.settings, cohort.W[:, layer]
        apart = torch.linalg.vector_norm(W - W.mean(0), dim=1, dtype=torch.float64).mean()
        tau = (s.beta * apart).clamp(s.min_tau, s.max_tau)
        before, moved = norm(cohort.w[layer]), norm(aggregate[layer] - cohort.w[layer])
        return torch.where(before > 0, before / (before + tau * moved).clamp(min=1e-300), 1.0)
