"""FedAdam: Adam on the server over the cohort's mean update (Reddi et al., 2021)."""

from typing import Literal

from torch import Tensor

from fedbench.base.fields import Positive, Share
from fedbench.methods.base import register_method
from fedbench.methods.moments import MomentSettings, ServerMoments


class FedAdamSettings(MomentSettings):
    """The server's Adam."""

    name: Literal["fedadam"] = "fedadam"
    lr: Positive = 0.01
    """step size"""
    beta1: Share = 0.9
    """decay of the first moment"""
    beta2: Share = 0.99
    """decay of the second moment"""
    eps: Positive = 1e-3
    """tau, the floor of the denominator"""


@register_method()
class FedAdam(ServerMoments[FedAdamSettings]):
    """v <- beta2 v + (1 - beta2) d^2, the rest as for all server moments."""

    Settings = FedAdamSettings

    def second(self, v: Tensor, d: Tensor) -> Tensor:
        """A decaying mean of squares."""
        beta2 = self.settings.beta2
        return beta2 * v + (1 - beta2) * d.square()
