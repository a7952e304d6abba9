"""FedAdp: clients whose updates point along the mean count for more (Wu and Wang, IEEE TCCN 2021)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import NonNegative
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method
from fedbench.methods.geometry import cosines, lengths, norm, project


class FedAdpSettings(MethodSettings):
    """How strongly angles change the weights."""

    name: Literal["fedadp"] = "fedadp"
    alpha: NonNegative = 5.0
    """steepness of the weights in the angle; 0 is FedAvg"""


@register_method()
class FedAdp(Method[FedAdpSettings]):
    """theta_i: the angle between d_i = w_i - w_g and sum_j p_j d_j, its mean over all rounds of client i so far.

    lambda_i proportional to p_i exp(f(theta_i)), f(theta) = alpha (1 - exp(-exp(-alpha (theta - 1)))).
    """

    Settings = FedAdpSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """The mean angle of each client and the number of its rounds, both [n], float64."""
        return {name: w.new_zeros(num_clients, dtype=torch.float64) for name in ("theta", "rounds")}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by sizes and angles."""
        rows, mean = cohort.rows(), cohort.p @ cohort.W - cohort.w
        angle = cosines(project(cohort, mean), lengths(cohort), norm(mean)).arccos()
        rounds = state["rounds"].index_add(0, rows, torch.ones_like(angle))
        theta = state["theta"].index_add(0, rows, (angle - state["theta"][rows]) / rounds[rows])
        lambda_ = (cohort.p.to(torch.float64) * gompertz(theta[rows], self.settings.alpha).exp()).to(cohort.p)
        lambda_ = lambda_ / lambda_.sum()
        return Update(w=cohort.combine(lambda_), lambda_=lambda_, state={"theta": theta, "rounds": rounds})


def gompertz(theta: Tensor, alpha: float) -> Tensor:
    """Alpha (1 - exp(-exp(-alpha (theta - 1)))): from about alpha at small angles down to 0."""
    return alpha * (1 - (-(-alpha * (theta - 1)).exp()).exp())
