"""FedAvgM: momentum on the server (Hsu et al., Measuring the Effects of Non-Identical Data Distribution, 2019)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import Positive, Share
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method


class FedAvgMSettings(MethodSettings):
    """The server's SGD."""

    name: Literal["fedavgm"] = "fedavgm"
    lr: Positive = 1.0
    """step size"""
    momentum: Share = 0.9
    """beta, of the server; 0 with lr 1 is FedAvg"""
    dampening: Share = 0.0
    """what is taken off a new update: 0 as its authors have it, `momentum` for a moving mean, as others do"""


@register_method()
class FedAvgM(Method[FedAvgMSettings]):
    """d = sum_i p_i (w_i - w_g);  m <- beta m + (1 - dampening) d, from 0;  w_g <- w_g + lr m."""

    Settings = FedAvgMSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """The momentum [P], zero."""
        return {"m": torch.zeros_like(w)}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """One step of SGD with momentum along the mean update."""
        s = self.settings
        d = cohort.combine(cohort.p).sub_(cohort.w)
        m = s.momentum * state["m"] + (1 - s.dampening) * d
        return Update(w=cohort.w + s.lr * m, lambda_=cohort.p, state={"m": m})
