"""FedAdam: Adam on the server over the cohort's mean update (Reddi et al., 2021)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import Positive, Share
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method


class FedAdamSettings(MethodSettings):
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
class FedAdam(Method[FedAdamSettings]):
    """d = sum_i lambda_i (w_i - w_g); m and v are its moments, v from eps^2; no bias correction.

    w_g <- w_g + lr * m / (sqrt(v) + eps).
    """

    Settings = FedAdamSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """Moments [P]: m = 0, v = eps^2."""
        return {"m": torch.zeros_like(w), "v": torch.full_like(w, self.settings.eps**2)}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """One step of Adam along the mean update."""
        s = self.settings
        d = cohort.combine(cohort.p).sub_(cohort.w)
        m = s.beta1 * state["m"] + (1 - s.beta1) * d
        v = s.beta2 * state["v"] + (1 - s.beta2) * d.square()
        w = cohort.w + s.lr * m / (v.sqrt() + s.eps)
        return Update(w=w, lambda_=cohort.p, state={"m": m, "v": v})
