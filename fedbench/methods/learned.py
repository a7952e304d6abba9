"""Learning (gamma, lambda) on the proxy set: one optimiser for adaptive GWS, attentive LAW and FedLAW.

It minimises the proxy loss L(gamma * sum_i lambda_i w_i) over unconstrained x [m] and y. The gradient over the cohort
W [m, P] is analytic: with g the gradient of L at the combined model,

    dL/dlambda = gamma * W g,    dL/dgamma = <g, lambda W>.

With a global learning rate, w_i stands for w_g + eta_g (w_i - w_g).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, StepLR
from torch.optim.swa_utils import SWALR

from fedbench.base.fields import Count, Positive, UnhashedDefault, Whole
from fedbench.methods.base import BatchNormRule, Cohort, MethodSettings, PathPoint, ProxyUse, Server, Update
from fedbench.methods.optimisers import Adam

AtLeastOne = Annotated[float, Field(ge=1, le=1e30)]
PAPER_BN: BatchNormRule = "proxy"
SWA_COSINE_EPOCHS = 100  # T_max of the schedule before averaging starts
SWA_ANNEAL_EPOCHS = 10  # how long the change to the averaging learning rate takes


class LearnedSettings(MethodSettings):
    """Settings of all learned weights. The learning rate is the data set's, unless it is given."""

    epochs: Whole = 100
    """server epochs over the proxy set"""
    steps: Whole | None = None
    """at most so many server steps in all; null for no cap"""
    lr: Positive
    """learning rate of the server's Adam"""
    lr_step: Count = 20
    """server epochs between changes of the learning rate"""
    lr_gamma: Positive = 0.5
    """what the learning rate is then multiplied by"""
    batch_size: Count = 128
    """proxy images in a batch"""
    base: Literal["exp", "quad"] = "exp"
    """how x and y become lambda and gamma: e^x or x^2"""

    @property
    def proxy_use(self) -> ProxyUse:
        """Images and labels."""
        return "labelled"


class LearnedGammaSettings(LearnedSettings):
    """Settings of methods that learn gamma."""

    max_gamma: Annotated[AtLeastOne | None, UnhashedDefault()] = None
    """the largest gamma that may be learned, at least 1: a larger one is set back to it after each server step; null
    for no bound"""


@dataclass(frozen=True)
class Swa:
    """Stochastic weight averaging of x: from epoch `start` on, x is averaged once an epoch at learning rate `lr`."""

    start: int = 6
    lr: float = 0.05


class ExpBase:
    """lambda_i = p_i e^(x_i) / sum_j p_j e^(x_j) from x = 0; gamma = e^y from y = 0."""

    def __init__(self, p: Tensor) -> None:
        self.p = p

    def start(self) -> tuple[Tensor, Tensor]:
        """(x, y) of FedAvg."""
        return torch.zeros_like(self.p), self.p.new_zeros(())

    def lambda_(self, x: Tensor) -> Tensor:
        """On the simplex; exactly p at x = 0."""
        e = self.p * x.exp()
        return e / (e.sum() / self.p.sum())

    def gamma(self, y: Tensor) -> Tensor:
        """Positive; exactly 1 at y = 0."""
        return y.exp()

    def pull_back(self, x: Tensor, d_lambda: Tensor) -> Tensor:
        """dL/dx from dL/dlambda."""
        lambda_ = self.lambda_(x)
        return lambda_ * (d_lambda - lambda_ @ d_lambda)

    def pull_back_gamma(self, y: Tensor, d_gamma: Tensor) -> Tensor:
        """dL/dy from dL/dgamma."""
        return self.gamma(y) * d_gamma

    def bound(self, y: Tensor, max_gamma: float) -> None:
        """Set y back, in place, to where gamma is at most `max_gamma`."""
        y.clamp_(max=math.log(max_gamma))


class QuadBase(ExpBase):
    """lambda_i = x_i^2 / sum_j x_j^2 from x_i = sqrt(p_i); gamma = y^2 from y = 1."""

    def start(self) -> tuple[Tensor, Tensor]:
        """(x, y) of FedAvg."""
        return self.p.sqrt(), self.p.new_ones(())

    def lambda_(self, x: Tensor) -> Tensor:
        """On the simplex."""
        return x.square() / x.square().sum()

    def gamma(self, y: Tensor) -> Tensor:
        """Not negative."""
        return y.square()

    def pull_back(self, x: Tensor, d_lambda: Tensor) -> Tensor:
        """dL/dx from dL/dlambda."""
        return 2 * x / x.square().sum() * (d_lambda - self.lambda_(x) @ d_lambda)

    def pull_back_gamma(self, y: Tensor, d_gamma: Tensor) -> Tensor:
        """dL/dy from dL/dgamma."""
        return 2 * y * d_gamma

    def bound(self, y: Tensor, max_gamma: float) -> None:
        """Set y back, in place, to where gamma is at most `max_gamma`."""
        y.clamp_(-math.sqrt(max_gamma), math.sqrt(max_gamma))


BASES = {"exp": ExpBase, "quad": QuadBase}


class WeightLearner:
    """Learns gamma, lambda or both for one cohort, starting from FedAvg; `run` may be called for several stages.

    x [m] and y are float64 whatever the model's precision: they are tiny, and sums of weights stay exact.
    """

    def __init__(self, cohort: Cohort, server: Server, settings: LearnedSettings) -> None:
        self.cohort, self.server, self.settings = cohort, server, settings
        self.base = BASES[settings.base](cohort.p.to(torch.float64))
        self.x, self.y = self.base.start()
        self._noted: list[Tensor] = []
        self._rng = server.rng("learn")
        self._steps = 0
        server.model.load(cohort.w, cohort.buffers)
        server.model.train()

    @property
    def lambda_(self) -> Tensor:
        """The weights [m] in float64."""
        return self.base.lambda_(self.x)

    @property
    def gamma(self) -> Tensor:
        """The shrinking factor, a 0-d tensor."""
        return self.base.gamma(self.y)

    @property
    def path(self) -> tuple[PathPoint, ...]:
        """Gamma, lambda and the mean loss after every epoch so far: where the host waits for all of them."""
        noted = torch.stack(self._noted).tolist() if self._noted else []
        return tuple(PathPoint(gamma, tuple(lambda_), loss) for gamma, loss, *lambda_ in noted)

    def run(
        self,
        epochs: int,
        *,
        learn_gamma: bool,
        learn_lambda: bool,
        max_gamma: float | None = None,
        swa: Swa | None = None,
    ) -> None:
        """One stage: a fresh Adam over the chosen parts, the others held fixed."""
        adam = Adam([self.x] * learn_lambda + [self.y] * learn_gamma)
        fixed_mean = None if learn_lambda else self._mean()
        last_loss = self.cohort.w.new_zeros(())

        def step(index: Tensor, numbers: Tensor) -> None:
            last_loss.copy_(self.gradient(index, fixed_mean, learn_gamma=learn_gamma, learn_lambda=learn_lambda))
            adam.step(numbers)
            if max_gamma is not None:
                self.base.bound(self.y, max_gamma)

        repeated, averaged = self.server.repeated(step), list[Tensor]()
        for epoch, rate in enumerate(rates(self.settings, epochs, swa)):
            batches = self._batches()
            if not batches:
                break
            losses = []
            for index, numbers in zip(batches, adam.ahead([rate] * len(batches)), strict=True):
                repeated(index, numbers)
                losses.append(last_loss.clone())
            if swa and epoch >= swa.start:
                averaged.append(self.x.clone())
            self._note(losses)
        if averaged:
            self.x = torch.stack(averaged).mean(0)

    def gradient(self, index: Tensor, mean: Tensor | None, *, learn_gamma: bool, learn_lambda: bool) -> Tensor:
        """Put dL/dx and dL/dy of one proxy batch into x.grad and y.grad; returns the loss, a 0-d tensor.

        `mean` is lambda W [P], where it is fixed and known.
        """
        model, proxy = self.server.model, self.server.proxy
        mean = self._mean() if mean is None else mean
        gamma = self.gamma
        torch.mul(mean, gamma.to(mean), out=model.w)
        loss = F.cross_entropy(model(proxy.x[index]), proxy.y[index])
        model.backward(loss)
        if learn_gamma:
            self.y.grad = self.base.pull_back_gamma(self.y, (model.grad @ mean).to(torch.float64))
        if learn_lambda:  # with eta_g, the share of w_g is the same for all clients: it drops out of dL/dx
            d_lambda = (self.cohort.W @ model.grad).to(torch.float64) * gamma * self.cohort.global_lr
            self.x.grad = self.base.pull_back(self.x, d_lambda)
        return loss.detach()

    def update(self) -> Update:
        """The aggregated model with the weights as they are now."""
        lambda_, gamma = self.lambda_.to(self.cohort.p), float(self.gamma)
        left_behind = self.cohort.bn == "proxy" and self._steps > 0
        return Update(
            w=self.cohort.combine(lambda_, gamma),
            lambda_=lambda_,
            gamma=gamma,
            buffers=self.server.model.buffers.clone() if left_behind else None,
            path=self.path,
        )

    def _mean(self) -> Tensor:
        return self.cohort.combine(self.lambda_.to(self.cohort.p))

    def _batches(self) -> list[Tensor]:
        """The batches of the next epoch, as far as there are steps left."""
        batches = self.server.proxy.batches(self._rng, self.settings.batch_size)
        if self.settings.steps is not None:
            batches = batches[: max(0, self.settings.steps - self._steps)]
        self._steps += len(batches)
        return batches

    def _note(self, losses: list[Tensor]) -> None:
        """Keep gamma, the mean loss and lambda of an epoch [m + 2], on the device."""
        self._noted.append(torch.cat([torch.stack([self.gamma, torch.stack(losses).mean().double()]), self.lambda_]))


def rates(settings: LearnedSettings, epochs: int, swa: Swa | None) -> Iterator[float]:
    """The learning rate of each epoch; torch's own schedules, on an optimiser that has nothing to do."""
    idle = torch.optim.Adam([torch.zeros((), device="cpu")], lr=settings.lr)
    schedule: LRScheduler = StepLR(idle, settings.lr_step, settings.lr_gamma)
    if swa:
        schedule = CosineAnnealingLR(idle, SWA_COSINE_EPOCHS)
    for epoch in range(epochs):
        if swa and epoch == swa.start:
            schedule = SWALR(idle, swa.lr, SWA_ANNEAL_EPOCHS)
        yield float(idle.param_groups[0]["lr"])
        idle.step()
        schedule.step()
