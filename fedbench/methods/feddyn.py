"""FedDyn: dynamic regularisation (Acar et al., 2021), with partial participation."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import Positive
from fedbench.methods.base import Cohort, Correction, Method, MethodSettings, Server, State, Update, register_method


class FedDynSettings(MethodSettings):
    """The regulariser."""

    name: Literal["feddyn"] = "feddyn"
    a: Positive = 0.01
    """strength of the regulariser"""
    clip: Positive | None = None
    """largest norm of a local gradient (its authors use 10); null for none"""


@register_method()
class FedDyn(Method[FedDynSettings]):
    """Clients minimise L_i(w) - <h_i, w> + (a/2) |w - w_g|^2; means are uniform.

    h_i <- h_i - a (w_i - w_g), absent clients keep theirs; h <- h - (a/n) sum_P (w_i - w_g);
    w_g <- mean_P w_i - h/a.
    """

    Settings = FedDynSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """h_i [n, P] and h [P], all zero."""
        return {"h_clients": w.new_zeros(num_clients, len(w)), "h": torch.zeros_like(w)}

    def correction(self, state: State, client: int, w: Tensor) -> Correction:
        """-h_i + a (w - w_g)."""
        return Correction(linear=-state["h_clients"][client], mu=self.settings.a, anchor=w, clip=self.settings.clip)

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The uniform mean of the cohort, moved by the server's h."""
        a = self.settings.a
        drift = cohort.W - cohort.w
        h_clients = state["h_clients"].index_add(0, cohort.rows(), drift, alpha=-a)
        h = state["h"].sub(drift.sum(0), alpha=a / cohort.num_clients)
        uniform = cohort.uniform
        w = cohort.combine(uniform).sub_(h, alpha=1 / a)
        return Update(w=w, lambda_=uniform, state={"h_clients": h_clients, "h": h})
