"""FedProx: a proximal term keeps clients near the global model."""

from typing import Literal

from torch import Tensor

from fedbench.base.fields import NonNegative
from fedbench.methods.base import (
    Cohort,
    Correction,
    Method,
    MethodSettings,
    Server,
    State,
    Update,
    register_method,
    size_weighted,
)


class FedProxSettings(MethodSettings):
    """The proximal term."""

    name: Literal["fedprox"] = "fedprox"
    mu: NonNegative = 0.001
    """weight of the proximal term; 0 is FedAvg"""


@register_method()
class FedProx(Method[FedProxSettings]):
    """Clients minimise L_i(w) + mu/2 |w - w_g|^2; the server averages by data sizes."""

    Settings = FedProxSettings

    def correction(self, state: State, client: int, w: Tensor) -> Correction:
        """Gradient of the proximal term: mu (w - w_g)."""
        return Correction(mu=self.settings.mu, anchor=w)

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by data sizes."""
        return size_weighted(cohort)
