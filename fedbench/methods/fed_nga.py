"""Fed-NGA: the weighted mean of the clients' updates, each scaled to unit norm (Zuo et al., NeurIPS 2025)."""

from typing import Literal

import torch

from fedbench.base.fields import Positive
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method
from fedbench.methods.geometry import lengths


class FedNgaSettings(MethodSettings):
    """How far the server goes along the mean direction."""

    name: Literal["fed_nga"] = "fed_nga"
    lr: Positive | None = None
    """step size eta of the server; null for the median norm of the cohort's updates"""


@register_method()
class FedNga(Method[FedNgaSettings]):
    """w <- w + eta sum_i p_i d_i / |d_i|, with updates d_i = w_i - w and data-size weights p.

    No client can move the model further than its share of eta, however long its update is; an update that is zero adds
    nothing. The paper normalises gradients and has a decaying eta. Here clients take several steps, so their updates
    take the place of gradients, and eta is the median norm of the updates: it shrinks with them, and less than half of
    the clients cannot move it beyond the norms of the others. `method.lr` sets a constant instead.

    The rule is that of the paper's abstract (arXiv 2408.09539); its equations and experiments could not be checked, and
    no code of its authors was found. The weights p are recorded as lambda and average running statistics.
    """

    Settings = FedNgaSettings
    metrics = {"nga_step": "step size of Fed-NGA"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Scale every update to unit norm, and step along their mean."""
        own = lengths(cohort)
        eta = own.quantile(0.5) if self.settings.lr is None else own.new_tensor(self.settings.lr)
        scaled = torch.where(own > 0, eta * cohort.p / own, 0.0).to(cohort.p)
        w = cohort.w + scaled @ cohort.W - scaled.sum() * cohort.w
        return Update(w=cohort.towards(w), lambda_=cohort.p, metrics={"nga_step": float(eta)})
