"""q-FedAvg: clients with a higher loss count for more (Li et al., Fair Resource Allocation, ICLR 2020)."""

from typing import Literal

from fedbench.base.fields import NonNegative, Positive
from fedbench.methods.base import Cohort, Method, MethodSettings, Report, Server, State, Update, register_method
from fedbench.methods.geometry import lengths

LEAST_LOSS = 1e-10  # keeps F^(q - 1) finite, as in its authors' release


class QFedAvgSettings(MethodSettings):
    """How much fairness weighs."""

    name: Literal["qfedavg"] = "qfedavg"
    q: NonNegative = 0.1
    """the larger, the more uniform the accuracy over clients; 0 is the uniform mean"""
    lipschitz: Positive | None = None
    """L, an estimate of the loss's Lipschitz constant; null for (1 - momentum) / lr of the clients in this round"""

    @property
    def reports(self) -> tuple[Report, ...]:
        """The loss of each client."""
        return ("loss",)


@register_method()
class QFedAvg(Method[QFedAvgSettings]):
    """D_i = L (w_g - w_i), h_i = q F_i^(q-1) |D_i|^2 + L F_i^q;  w_g <- w_g - sum_i F_i^q D_i / sum_i h_i.

    Its paper has L = 1 / lr for clients without momentum, whose step along a gradient g is lr g: D_i stands for a
    gradient. With momentum rho the step along a steady gradient is lr g / (1 - rho), hence L = (1 - rho) / lr.
    Means are uniform. F_i is the client's mean training loss over the round; its authors take the loss before it, which
    would cost each client another pass over its data. As weights: lambda_i = F_i^q / sum_j F_j^q.
    """

    Settings = QFedAvgSettings
    metrics = {"qfedavg_step": "server step of q-FedAvg"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Weigh updates by a power of the loss, with the step that its Lipschitz estimate allows."""
        q, work = self.settings.q, cohort.work
        L = self.settings.lipschitz or (1 - work.momentum) / work.lr
        loss = cohort.losses.clamp(min=LEAST_LOSS)
        weight, length = loss**q, L * lengths(cohort)
        h = q * loss ** (q - 1) * length.square() + L * weight
        step = float(L * weight.sum() / h.sum())
        lambda_ = (weight / weight.sum()).to(cohort.p)
        mean = cohort.w + step * (lambda_ @ cohort.W - cohort.w)
        return Update(w=cohort.towards(mean), lambda_=lambda_, metrics={"qfedavg_step": step})
