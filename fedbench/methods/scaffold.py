"""SCAFFOLD: control variates take each client's drift back (Karimireddy et al., ICML 2020), option II."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.methods.base import (
    Cohort,
    Correction,
    Method,
    MethodSettings,
    Report,
    Server,
    State,
    Update,
    register_method,
)


class ScaffoldSettings(MethodSettings):
    """How clients are weighted; the server's step is server.global_lr."""

    name: Literal["scaffold"] = "scaffold"
    weights: Literal["size", "uniform"] = "size"
    """means over clients: by data size, as the other methods here, or uniform, as in its paper"""

    @property
    def reports(self) -> tuple[Report, ...]:
        """The mean of the gradients it took."""
        return ("gradient",)

    @property
    def extra_vectors(self) -> tuple[int, int]:
        """The change of c_i goes up, c comes down."""
        return (1, 1)


@register_method()
class Scaffold(Method[ScaffoldSettings]):
    """Clients add c - c_i to their gradient; c_i and c start at zero, so the first round is FedAvg.

    c_i <- c_i - c + u_i, absent clients keep theirs; c <- c + (m/n) sum_i lambda_i (change of c_i);
    w_g <- sum_i lambda_i w_i. u_i is the mean of the corrected gradients that client i took its K steps with. For plain
    SGD that is its paper's (w_g - w_i) / (lr K). With momentum rho this quotient is about 1 / (1 - rho) times as large,
    and the run breaks down; so the velocity before and after is counted in, which makes the mean exact:
    u_i = ((1 - rho) (w_g - w_i) / lr + rho (v_K - v_0)) / K. Weight decay is part of a client's gradient, and so of
    c_i. Each client sends the change of c_i beside its model, and gets c. Even so momentum makes every correction
    1 / (1 - rho) times as strong, as it does gradients, and with very different clients and a large learning rate the
    run may diverge where plain SGD (clients.momentum=0) does not.
    """

    Settings = ScaffoldSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """c_i [n, P] and c [P], all zero."""
        return {"c_clients": w.new_zeros(num_clients, len(w)), "c": torch.zeros_like(w)}

    def correction(self, state: State, client: int, w: Tensor) -> Correction:
        """Its drift: c - c_i."""
        return Correction(linear=state["c"] - state["c_clients"][client])

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average, and renew the control variates."""
        lambda_ = cohort.p if self.settings.weights == "size" else cohort.uniform
        moved = (cohort.work.steps > 0).to(cohort.w)  # who took no step has learned nothing of its gradients
        change = (cohort.gradients - state["c"]).mul_(moved[:, None])  # of c_i [m, P]
        c = state["c"].add(lambda_ @ change, alpha=len(cohort.W) / cohort.num_clients)
        c_clients = state["c_clients"].index_add(0, cohort.rows(), change)
        return Update(w=cohort.combine(lambda_), lambda_=lambda_, state={"c_clients": c_clients, "c": c})
