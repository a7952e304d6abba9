"""Local training: E epochs of SGD over a plan of batches, on a flat vector."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.base.tensors import on_device
from fedbench.config import TrialConfig
from fedbench.data.classes import Indices
from fedbench.data.samples import Samples
from fedbench.methods import Correction
from fedbench.models import FlatModel


@dataclass(frozen=True)
class Plan:
    """A client's batches of one round, drawn ahead: full [E, steps, B] and the ragged rest of each epoch [E, rest]."""

    full: Tensor
    rest: Tensor

    @property
    def steps(self) -> int:
        """How many batches there are."""
        epochs, full, _ = self.full.shape
        return epochs * (full + bool(self.rest.shape[1]))

    @property
    def samples(self) -> int:
        """How many samples there are in all batches."""
        return self.full.numel() + self.rest.numel()

    def batches(self) -> Iterator[Tensor]:
        """Index tensors in training order."""
        for full, rest in zip(self.full.unbind(), self.rest.unbind(), strict=True):
            yield from full.unbind()
            if len(rest):
                yield rest


def draw_plan(
    shard: Indices,
    epochs: int,
    batch_size: int,
    rng: np.random.Generator,
    device: torch.device,
    least: int = 1,
) -> Plan:
    """Every epoch is a fresh shuffle of the whole shard; none is dropped but a rest smaller than `least`."""
    return cut_plan(on_device(draw_order(shard, epochs, rng), device), batch_size, least)


def draw_order(shard: Indices, epochs: int, rng: np.random.Generator) -> Indices:
    """The order of a client's samples [E, n]: a fresh shuffle in every epoch."""
    return np.stack([rng.permutation(shard) for _ in range(epochs)])


def cut_plan(order: Tensor, batch_size: int, least: int = 1) -> Plan:
    """An order of samples [E, n], cut into batches."""
    epochs, n = order.shape
    steps = n // batch_size
    cut = steps * batch_size
    rest = order[:, cut:] if n - cut >= least else order[:, :0]
    return Plan(order[:, :cut].reshape(epochs, steps, batch_size), rest)


@dataclass(frozen=True)
class Sgd:
    """The local optimiser: v <- momentum v + g + weight_decay w; w <- w - lr v. lr is a 0-d tensor."""

    lr: Tensor
    momentum: float
    weight_decay: float

    @cached_property
    def step(self) -> Tensor:
        """-lr, a 0-d tensor."""
        return -self.lr

    @classmethod
    def of_round(cls, config: TrialConfig, round_: int, device: torch.device) -> "Sgd":
        """The config's, with the learning rate of a round."""
        clients, lr = config.clients, round_lr(config, round_)
        rate = torch.full((), lr, device=device, dtype=config.numbers.dtype)
        return cls(rate, clients.momentum, clients.weight_decay)


def round_lr(config: TrialConfig, t: int) -> float:
    """Lr * lr_decay^(t - 1) in round t = 1, 2, ..."""
    return config.clients.lr * config.clients.lr_decay ** (t - 1)


def local_train(
    model: FlatModel, samples: Samples, plan: Plan, sgd: Sgd, velocity: Tensor, correction: Correction | None
) -> Tensor:
    """Train `model` in place along the plan; `velocity` [P] is updated in place too.

    Returns the mean loss over all samples seen, a 0-d tensor on the device: nothing here waits for the device.
    """
    model.train()
    total = torch.zeros((), device=velocity.device, dtype=torch.float64)
    for index in plan.batches():
        train_step(model, samples, index, sgd, velocity, correction, total)
    return total / max(plan.samples, 1)


def train_step(
    model: FlatModel,
    samples: Samples,
    index: Tensor,
    sgd: Sgd,
    velocity: Tensor,
    correction: Correction | None,
    total: Tensor,
) -> None:
    """One step of SGD on the samples in `index` [B]; adds B times their mean loss to `total`, a 0-d float64.

    All that lives on is written in place: the model's vectors, `velocity` [P] and `total`. So a step can be captured.
    """
    w, grad = model.w, model.grad
    x, y = samples.batch(index)
    loss = F.cross_entropy(model(x), y)
    model.backward(loss)
    with torch.no_grad():
        if correction is not None:
            correct(grad, w, correction)
        grad.add_(w, alpha=sgd.weight_decay)
        velocity.mul_(sgd.momentum).add_(grad)
        w.addcmul_(velocity, sgd.step)
        total += loss.detach() * len(index)


def mean_gradient(w: Tensor, trained: Tensor, before: Tensor, after: Tensor, sgd: Sgd, steps: float) -> Tensor:
    """The mean of the gradients g_s that led from w to `trained` in some steps [P], whatever the momentum.

    From v_s = rho v_(s-1) + g_s and w - w_K = lr sum_s v_s follows
    sum_s g_s = (1 - rho) (w - w_K) / lr + rho (v_K - v_0), with v_0 and v_K the velocity before and after.
    """
    total = (w - trained).mul_((1 - sgd.momentum) / sgd.lr)
    return total.add_(after - before, alpha=sgd.momentum).div_(max(steps, 1.0))


def correct(grad: Tensor, w: Tensor, correction: Correction) -> None:
    """Grad += linear + mu d + pull d / |d|, d = w - anchor, then cut its norm to `clip`; all [P], in place, no sync."""
    if correction.linear is not None:
        grad.add_(correction.linear)
    if correction.mu and correction.anchor is not None:
        grad.add_(w - correction.anchor, alpha=correction.mu)
    if correction.pull and correction.anchor is not None:
        away = w - correction.anchor
        grad.add_(away.div_(torch.linalg.vector_norm(away).clamp(min=torch.finfo(w.dtype).tiny)), alpha=correction.pull)
    if correction.clip is not None:
        norm = torch.linalg.vector_norm(grad)
        grad.mul_(torch.clamp(correction.clip / (norm + 1e-6), max=1.0))
