"""FedAdagrad: Adagrad on the server over the cohort's mean update (Reddi et al., 2021)."""

from typing import Literal

from torch import Tensor

from fedbench.base.fields import Positive, Share
from fedbench.methods.base import register_method
from fedbench.methods.moments import MomentSettings, ServerMoments


class FedAdagradSettings(MomentSettings):
    """The server's Adagrad."""

    name: Literal["fedadagrad"] = "fedadagrad"
    lr: Positive = 0.01
    """step size; the first step moves every weight by about this much, so 0.1 would undo the initial model"""
    beta1: Share = 0.0
    """decay of the first moment"""


@register_method()
class FedAdagrad(ServerMoments[FedAdagradSettings]):
    """v <- v + d^2, the rest as for all server moments."""

    Settings = FedAdagradSettings

    def second(self, v: Tensor, d: Tensor) -> Tensor:
        """The sum of all squares."""
        return v + d.square()
