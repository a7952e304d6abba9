"""Centered clipping: the mean of updates, cut around a centre kept between rounds (Karimireddy et al., 2021)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import Count, Positive
from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.robust import RobustSettings, ascending, distances_to, middle, seen


class CenteredClippingSettings(RobustSettings):
    """The clipping. Only mixing uses f."""

    name: Literal["centered_clipping"] = "centered_clipping"
    tau: Positive | None = None
    """clipping radius, in units of the updates' norm; null for the median distance to the centre"""
    iterations: Count = 1
    """times that the centre is moved in a round"""


@register_method()
class CenteredClipping(Method[CenteredClippingSettings]):
    """On updates d_i = w_i - w_g: v <- v + (1/m) sum_i (d_i - v) min(1, tau / |d_i - v|), then w_g' = w_g + v.

    v is kept between rounds and starts at 0; unweighted. Constants for tau in the literature depend on the scale of the
    updates, which differs between models and falls with the learning rate; so by default tau is the median of
    |d_i - v|, taken anew in every iteration. The recorded lambda is the clipping factors, normalised to sum to 1.
    (Karimireddy, He and Jaggi: Learning from history for Byzantine robust optimization, 2021.)
    """

    Settings = CenteredClippingSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """The centre v [P], zero."""
        return {"v": torch.zeros_like(w)}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The new model, w_g + v = sum_i a_i w_i + (1 - sum_i a_i) (w_g + the old v)."""
        centre = cohort.w + state["v"]
        mix, G = seen(cohort, self.settings, centre)
        a = mix.weights(clip(G, self.settings))
        moved = (a.to(cohort.p) @ cohort.W).add_(centre, alpha=1 - float(a.sum()))
        v = moved - cohort.w
        return Update(w=cohort.towards(moved), lambda_=(a / a.sum()).to(cohort.p), state={"v": v})


def clip(G: Tensor, settings: CenteredClippingSettings) -> Tensor:
    """Coefficients a [m] of the new v = v + sum_i a_i e_i, from the Gram matrix [m, m] of e_i = d_i - v."""
    a = torch.zeros(len(G), dtype=torch.float64)
    for _ in range(settings.iterations):
        distances = distances_to(a, G)
        tau = float(middle(ascending(distances))) if settings.tau is None else settings.tau
        factors = torch.where(distances <= tau, 1.0, tau / distances)
        a = a * (1 - factors.mean()) + factors / len(G)
    return a
