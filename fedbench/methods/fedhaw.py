"""FedHAW: gamma and lambda by hypergradients, without proxy data (Nakai-Kasai and Wadayama, 2026)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import NonNegative
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method


class FedHAWSettings(MethodSettings):
    """The rates of both hypergradients; both 0 is FedAvg."""

    name: Literal["fedhaw"] = "fedhaw"
    lr_gamma: NonNegative = 1e-5
    """step size of log gamma (its authors: 1e-3 for MNIST, 1e-5 for CIFAR-10)"""
    lr_lambda: NonNegative = 1e-2
    """step size of the weights' logits (its authors: 1e-2 for both)"""


@register_method()
class FedHAW(Method[FedHAWSettings]):
    """w_g <- e^g sum_i s_i w_i, s_i proportional to p_i e^(x_i), from g = 0 and x = 0.

    With v = w_g - sum_i s_i w_i, what the round has moved the model against, and lr the local learning rate:
    g <- g - lr_gamma e^g <v, w_g> / lr;
    x_i <- x_i - lr_lambda e^(2g) s_i (1 - s_i) <v, w_i before> / lr, w_i before: what client i sent the last time.
    Both from the second round on; a client that has sent nothing before keeps its x_i. The weights of the new model are
    the new ones.
    """

    Settings = FedHAWSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """g, x [n] in float64; what clients sent the last time [n, P], and whether they have sent anything [n]."""
        x = w.new_zeros(num_clients, dtype=torch.float64)
        sent = w.new_zeros(num_clients, len(w))
        return {"g": x.new_zeros(()), "x": x, "sent": sent, "has_sent": torch.zeros_like(x)}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """One step of both hypergradients, then the weighted mean."""
        rows, settings, lr = cohort.rows(), self.settings, cohort.work.lr
        g, x = state["g"], state["x"]
        if cohort.round > 1:
            s = weights(cohort.p, x[rows])
            v = cohort.w - s.to(cohort.p) @ cohort.W
            g = g - settings.lr_gamma * g.exp() / lr * (v.double() @ cohort.w.double())
            along = (state["sent"][rows] @ v).to(torch.float64) * state["has_sent"][rows]
            x = x.index_add(0, rows, -settings.lr_lambda * (2 * g).exp() / lr * s * (1 - s) * along)
        lambda_, gamma = weights(cohort.p, x[rows]).to(cohort.p), float(g.exp())
        kept = {"sent": state["sent"].index_copy(0, rows, cohort.W)}
        kept["has_sent"] = state["has_sent"].index_fill(0, rows, 1.0)
        return Update(cohort.combine(lambda_, gamma), lambda_, gamma, state={"g": g, "x": x, **kept})


def weights(p: Tensor, x: Tensor) -> Tensor:
    """p_i e^(x_i), normalised [m], float64; exactly p at x = 0."""
    p = p.to(torch.float64)
    e = p * (x - x.max()).exp()
    return e / (e.sum() / p.sum())
