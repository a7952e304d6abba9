"""FedAWA: weights that keep the aggregate near its clients' updates and near the last model (Shi et al., CVPR 2025)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import Positive, Whole
from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method
from fedbench.methods.geometry import gram, norm, project
from fedbench.methods.learned import ExpBase
from fedbench.methods.optimisers import Adam

ROUNDING = 1e-12  # distances below this share of the longest update are rounding


class FedAWASettings(MethodSettings):
    """Learning the weights, a few steps a round."""

    name: Literal["fedawa"] = "fedawa"
    objective: Literal["paper", "code"] = "paper"
    """as the paper has it, or as its authors' release computes it"""
    epochs: Whole = 1
    """steps of the server's Adam in a round; 0 with the paper's objective is FedAvg"""
    lr: Positive = 1e-3
    """learning rate of the server's Adam"""


@register_method()
class FedAWA(Method[FedAWASettings]):
    """Minimises sum_i lambda_i |d_i - d| + D over the simplex, d_i = w_i - w_g, d = sum_i lambda_i d_i.

    paper: D = 1 - cos(w_g + d, w_g); lambda_i proportional to p_i e^(x_i); the weights after the last step count.
    code: D = sum_i lambda_i (1 - cos(w_i, w_g)); lambda = softmax(p + x), nearly uniform at first; the weights before
    the last step count, so that with one step a round uses what the last one learned.
    x starts at zero and is kept for each client (the release keeps it by place in the cohort, which mixes clients up
    where not all take part); Adam is fresh every round, so a step moves x by about lr. All that the objective needs are
    products of updates: one [m, m] matrix a round, no further pass over the models.
    """

    Settings = FedAWASettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """Logits x [n], zero, float64."""
        return {"x": w.new_zeros(num_clients, dtype=torch.float64)}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Take some steps along the objective's gradient, then average."""
        rows, s = cohort.rows(), self.settings
        objective = Objective(cohort, s.objective)
        x = state["x"][rows].requires_grad_()
        adam = Adam([x])
        used = objective.weights(x)
        for numbers in adam.ahead([s.lr] * s.epochs):
            used = objective.weights(x)
            (x.grad,) = torch.autograd.grad(objective(used), x)
            adam.step(numbers)
        if s.objective == "paper":
            used = objective.weights(x)
        lambda_ = used.detach().to(cohort.p)
        return Update(cohort.combine(lambda_), lambda_, state={"x": state["x"].index_copy(0, rows, x.detach())})


class Objective:
    """What FedAWA minimises, as a function of lambda [m]: of products of updates alone, all float64."""

    def __init__(self, cohort: Cohort, kind: Literal["paper", "code"]) -> None:
        self.kind, self.p = kind, cohort.p.to(torch.float64)
        self.G, self.along, self.length = gram(cohort.W, cohort.w), project(cohort, cohort.w), norm(cohort.w)
        self.least = ROUNDING * self.G.diagonal().max() + 1e-300

    def weights(self, x: Tensor) -> Tensor:
        """Lambda on the simplex [m]."""
        return ExpBase(self.p).lambda_(x) if self.kind == "paper" else (self.p + x).softmax(0)

    def __call__(self, lambda_: Tensor) -> Tensor:
        """The objective, a 0-d tensor."""
        own, mixed = self.G.diagonal(), self.G @ lambda_
        apart = (own - 2 * mixed + lambda_ @ mixed).clamp(min=self.least).sqrt()
        if self.kind == "paper":
            return lambda_ @ apart + 1 - self._cosine(lambda_ @ self.along, lambda_ @ mixed)
        return lambda_ @ (apart + 1 - self._cosine(self.along, own))

    def _cosine(self, along: Tensor, square: Tensor) -> Tensor:
        """cos(w_g, w_g + d) for <w_g, d> and |d|^2."""
        length = (self.length**2 + 2 * along + square).clamp(min=1e-300).sqrt()
        return (self.length**2 + along) / (self.length * length).clamp(min=1e-300)
