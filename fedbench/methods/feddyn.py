"""FedDyn: dynamic regularisation (Acar et al., 2021), with partial participation."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from fedbench.base.fields import Positive, UnhashedDefault
from fedbench.methods.base import Cohort, Correction, Method, MethodSettings, Server, State, Update, register_method


class FedDynSettings(MethodSettings):
    """The regulariser."""

    name: Literal["feddyn"] = "feddyn"
    a: Positive = 0.01
    """strength of the regulariser"""
    clip: Positive | None = None
    """largest norm of a local gradient (its authors use 10); null for none"""
    distance: Annotated[Literal["squared", "plain"], UnhashedDefault()] = "squared"
    """what clients add to their loss: a/2 times the squared distance to the global model, or times the distance"""
    mean: Annotated[Literal["uniform", "size"], UnhashedDefault()] = "uniform"
    """over the cohort: equal weights, or by data sizes"""


@register_method()
class FedDyn(Method[FedDynSettings]):
    """Clients minimise L_i(w) - <h_i, w> + (a/2) |w - w_g|^2; means are uniform.

    h_i <- h_i - a (w_i - w_g), absent clients keep theirs; h <- h - a (m/n) mean_P (w_i - w_g);
    w_g <- mean_P w_i - h/a. FedLAW's authors have |w - w_g| in place of its square, means by data sizes, and no m/n:
    `distance: plain` and `mean: size`.
    """

    Settings = FedDynSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """h_i [n, P] and h [P], all zero."""
        return {"h_clients": w.new_zeros(num_clients, len(w)), "h": torch.zeros_like(w)}

    def correction(self, state: State, client: int, w: Tensor) -> Correction:
        """-h_i + a (w - w_g), or -h_i + (a/2) (w - w_g) / |w - w_g|."""
        linear, a, clip = -state["h_clients"][client], self.settings.a, self.settings.clip
        if self.settings.distance == "plain":
            return Correction(linear=linear, pull=a / 2, anchor=w, clip=clip)
        return Correction(linear=linear, mu=a, anchor=w, clip=clip)

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The mean of the cohort, moved by the server's h."""
        a = self.settings.a
        drift = cohort.W - cohort.w
        h_clients = state["h_clients"].index_add(0, cohort.rows(), drift, alpha=-a)
        if self.settings.mean == "size":
            lambda_, h = cohort.p, state["h"].sub(cohort.p @ drift, alpha=a)
        else:
            lambda_, h = cohort.uniform, state["h"].sub(drift.sum(0), alpha=a / cohort.num_clients)
        w = cohort.combine(lambda_).sub_(h, alpha=1 / a)
        return Update(w=w, lambda_=lambda_, state={"h_clients": h_clients, "h": h})
