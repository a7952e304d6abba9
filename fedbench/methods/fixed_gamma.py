"""Fixed global weight shrinking: FedAvg scaled by a constant (section 4 of the paper)."""

from typing import Literal

from fedbench.base.fields import Positive
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method, size_weighted


class FixedGammaSettings(MethodSettings):
    """The constant shrinking factor."""

    name: Literal["fixed_gamma"] = "fixed_gamma"
    gamma: Positive = 0.95
    """the shrinking factor; 1 is FedAvg"""


@register_method()
class FixedGamma(Method[FixedGammaSettings]):
    """w_g' = gamma * sum_i (|D_i| / |D|) w_i."""

    Settings = FixedGammaSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by data sizes, then shrink."""
        return size_weighted(cohort, self.settings.gamma)
