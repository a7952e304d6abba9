"""FedYogi: Yogi on the server over the cohort's mean update (Reddi et al., 2021)."""

from typing import Literal

from torch import Tensor

from fedbench.base.fields import Share
from fedbench.methods.base import register_method
from fedbench.methods.moments import MomentSettings, ServerMoments


class FedYogiSettings(MomentSettings):
    """The server's Yogi."""

    name: Literal["fedyogi"] = "fedyogi"
    beta2: Share = 0.99
    """decay of the second moment"""


@register_method()
class FedYogi(ServerMoments[FedYogiSettings]):
    """v <- v - (1 - beta2) d^2 sign(v - d^2): v moves by the size of d^2 alone, so it never forgets at once."""

    Settings = FedYogiSettings

    def second(self, v: Tensor, d: Tensor) -> Tensor:
        """Towards d^2, additively."""
        square = d.square()
        return v - (1 - self.settings.beta2) * square * (v - square).sign()
