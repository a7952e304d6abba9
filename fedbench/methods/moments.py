"""Adaptive optimisers on the server over the cohort's mean update: what FedAdam, FedYogi and FedAdagrad share.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2.
"""

from abc import abstractmethod
from typing import TypeVar

import torch
from torch import Tensor

from fedbench.base.fields import Positive, Share
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update


class MomentSettings(MethodSettings):
    """The server's optimiser."""

    lr: Positive = 0.01
    """step size"""
    beta1: Share = 0.9
    """decay of the first moment"""
    eps: Positive = 1e-3
    """tau, the floor of the denominator"""


S = TypeVar("S", bound=MomentSettings)


class ServerMoments(Method[S]):
    """d = sum_i p_i (w_i - w_g); m and v are its moments, from m = 0 and v = eps^2; no bias correction.

    m <- beta1 m + (1 - beta1) d;  v <- second(v, d);  w_g <- w_g + lr * m / (sqrt(v) + eps).
    """

    def start(self, num_clients: int, w: Tensor) -> State:
        """Moments [P]: m = 0, v = eps^2."""
        return {"m": torch.zeros_like(w), "v": torch.full_like(w, self.settings.eps**2)}

    @abstractmethod
    def second(self, v: Tensor, d: Tensor) -> Tensor:
        """The new second moment [P] of the mean updates, of which d [P] is the newest."""

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """One step along the mean update."""
        s = self.settings
        d = cohort.combine(cohort.p).sub_(cohort.w)
        m, v = s.beta1 * state["m"] + (1 - s.beta1) * d, self.second(state["v"], d)
        w = cohort.w + s.lr * m / (v.sqrt() + s.eps)
        return Update(w=w, lambda_=cohort.p, state={"m": m, "v": v})
