"""Local training: E epochs of SGD on a flat vector, with batches that are planned in advance."""

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
    """The batches of a client in one round, as indices: full [E, steps, B], and a smaller last batch [E, rest]."""

    full: Tensor
    rest: Tensor

    @property
    def steps(self) -> int:
        """The number of batches."""
        epochs, full, _ = self.full.shape
        return epochs * (full + bool(self.rest.shape[1]))

    @property
    def samples(self) -> int:
        """The number of samples in all batches."""
        return self.full.numel() + self.rest.numel()

    def batches(self) -> Iterator[Tensor]:
        """Yield the batches in training order."""
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
    """Draw a plan: every epoch is a new permutation of the shard; a last batch smaller than `least` is left out."""
    return cut_plan(on_device(draw_order(shard, epochs, rng), device), batch_size, least)


def draw_order(shard: Indices, epochs: int, rng: np.random.Generator) -> Indices:
    """Draw the order of a client's samples [E, n]: a new permutation for every epoch."""
    return np.stack([rng.permutation(shard) for _ in range(epochs)])


def draw_stream(shard: Indices, samples: int, rng: np.random.Generator) -> Indices:
    """Draw so many samples in one sequence [1, samples]: one permutation of the shard after the other."""
    passes = -(-samples // len(shard))
    return draw_order(shard, passes, rng).ravel()[None, :samples]


def plan_steps(n: int, epochs: int, batch_size: int, least: int) -> int:
    """The number of batches in a plan for n samples: see `cut_plan`."""
    full, rest = divmod(n, batch_size)
    return epochs * (full + (rest >= max(least, 1)))


def cut_plan(order: Tensor, batch_size: int, least: int = 1) -> Plan:
    """Cut an order of samples [E, n] into batches; a last batch smaller than `least` is left out."""
    epochs, n = order.shape
    steps = n // batch_size
    cut = steps * batch_size
    rest = order[:, cut:] if n - cut >= least else order[:, :0]
    return Plan(order[:, :cut].reshape(epochs, steps, batch_size), rest)


@dataclass(frozen=True)
class Sgd:
    """The local optimizer: v <- momentum v + g + weight_decay w; w <- w - lr v. lr is a 0-d tensor."""

    lr: Tensor
    momentum: float
    weight_decay: float

    @cached_property
    def step(self) -> Tensor:
        """-lr, a 0-d tensor."""
        return -self.lr

    @classmethod
    def of_round(cls, config: TrialConfig, round_: int, device: torch.device) -> "Sgd":
        """The optimizer that a config describes, with the learning rate of a round."""
        clients, lr = config.clients, round_lr(config, round_)
        rate = torch.full((), lr, device=device, dtype=config.numbers.dtype)
        return cls(rate, clients.momentum, clients.weight_decay)


def round_lr(config: TrialConfig, t: int) -> float:
    """The learning rate in round t = 1, 2, ...: lr * lr_decay^(t - 1)."""
    return config.clients.lr * config.clients.lr_decay ** (t - 1)


def local_train(
    model: FlatModel, samples: Samples, plan: Plan, sgd: Sgd, velocity: Tensor, correction: Correction | None
) -> Tensor:
    """Train `model` on the batches of a plan; the model and `velocity` [P] are updated in place.

    Return the mean loss over all samples as a 0-d tensor, without waiting for the device.
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
    """Take one step of SGD on the samples in `index` [B], and add B times their mean loss to `total`, a 0-d float64.

    The model's vectors, `velocity` [P] and `total` are written in place, so that the step can be captured as a CUDA
    graph.
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
    """The mean of the gradients g_s [P] of the K = `steps` steps of SGD with momentum rho that led from w to `trained`.

    From v_s = rho v_(s-1) + g_s and w - w_K = lr sum_s v_s follows
    sum_s g_s = (1 - rho) (w - w_K) / lr + rho (v_K - v_0), where v_0 and v_K are the velocity before and after.
    """
    total = (w - trained).mul_((1 - sgd.momentum) / sgd.lr)
    return total.add_(after - before, alpha=sgd.momentum).div_(max(steps, 1.0))


def correct(grad: Tensor, w: Tensor, correction: Correction) -> None:
    """Add linear + mu d + pull d / |d| with d = w - anchor to grad, then clip its norm. All [P], in place, no sync."""
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
