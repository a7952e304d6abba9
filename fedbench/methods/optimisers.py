"""The server's optimisers, such that a step of one can be captured and replayed.

All that changes from step to step is in a tensor that the step is given: `ahead` draws them up, one for each step.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from fedbench.base.tensors import on_device
from fedbench.methods.base import State

BETAS = (0.5, 0.999)  # of every Adam on the server
EPS = 1e-8


class Optimiser(Protocol):
    """Takes steps along its parameters' gradients."""

    def ahead(self, rates: Sequence[float]) -> Sequence[Tensor]:
        """Return what the next steps need, for one learning rate each."""

    def step(self, numbers: Tensor) -> None:
        """Take one step, all of it in place."""

    def kept(self) -> State:
        """What it remembers, for the next round."""


class Adam:
    """torch.optim.Adam, on a CPU to the bit: p <- p - lr / (1 - b1^k) m / (sqrt(v) / sqrt(1 - b2^k) + eps) in step k.

    A step's numbers are -lr / (1 - b1^k) and sqrt(1 - b2^k). `state` is what an earlier one of one parameter kept.
    """

    def __init__(self, parameters: Sequence[Tensor], state: State | None = None) -> None:
        self.parameters = parameters
        self.taken = int(state["step"]) if state else 0
        moments = ("exp_avg", "exp_avg_sq")
        self.m, self.v = (
            [state[name].clone()] if state else [torch.zeros_like(p, requires_grad=False) for p in parameters]
            for name in moments
        )

    def ahead(self, rates: Sequence[float]) -> Sequence[Tensor]:
        """The numbers of the next steps, [2] each."""
        rows, (beta1, beta2) = [], BETAS
        for rate in rates:
            self.taken += 1
            rows.append([-(rate / (1 - beta1**self.taken)), (1 - beta2**self.taken) ** 0.5])
        first = self.parameters[0]
        return on_device(rows, first.device, first.dtype).unbind() if rows else ()

    @torch.no_grad()
    def step(self, numbers: Tensor) -> None:
        """Take one step."""
        (beta1, beta2), (rate, correction) = BETAS, numbers.unbind()
        for p, m, v in zip(self.parameters, self.m, self.v, strict=True):
            assert p.grad is not None, "gradients come first"
            m.lerp_(p.grad, 1 - beta1)
            v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
            p.add_((m * rate).div_((v.sqrt() / correction).add_(EPS)))

    def kept(self) -> State:
        """Both moments, and the number of steps; of its first parameter."""
        return {"step": torch.full((), float(self.taken), device="cpu"), "exp_avg": self.m[0], "exp_avg_sq": self.v[0]}


class Sgd:
    """torch.optim.SGD of one parameter; its numbers never change, so that a captured step can have them built in."""

    def __init__(
        self, flat: torch.nn.Parameter, lr: float, momentum: float, weight_decay: float, state: State | None = None
    ) -> None:
        self.flat = flat
        self.sgd = torch.optim.SGD([flat], lr=lr, momentum=momentum, weight_decay=weight_decay)
        if state:
            self.sgd.state[flat] = {name: value.clone() for name, value in state.items()}

    def ahead(self, rates: Sequence[float]) -> Sequence[Tensor]:
        """Nothing, as often as needed."""
        return [self.flat.detach()[:0]] * len(rates)

    def step(self, numbers: Tensor) -> None:
        """Take one step."""
        self.sgd.step()

    def kept(self) -> State:
        """Its momentum."""
        return {name: value for name, value in self.sgd.state[self.flat].items() if isinstance(value, Tensor)}
