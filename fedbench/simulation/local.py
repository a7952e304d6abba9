"""Local training: E epochs of SGD over a plan of batches, on a flat vector."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

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
    order = torch.from_numpy(np.stack([rng.permutation(shard) for _ in range(epochs)])).to(device)
    steps = len(shard) // batch_size
    cut = steps * batch_size
    rest = order[:, cut:] if len(shard) - cut >= least else order[:, :0]
    return Plan(order[:, :cut].reshape(epochs, steps, batch_size), rest)


@dataclass(frozen=True)
class Sgd:
    """The local optimiser: v <- momentum v + g + weight_decay w; w <- w - lr v. lr is a 0-d tensor."""

    lr: Tensor
    momentum: float
    weight_decay: float

    @classmethod
    def of_round(cls, config: TrialConfig, round_: int, device: torch.device) -> "Sgd":
        """The config's, with the learning rate of a round."""
        clients, lr = config.clients, round_lr(config, round_)
        dtype = getattr(torch, config.precision)
        return cls(torch.tensor(lr, device=device, dtype=dtype), clients.momentum, clients.weight_decay)


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
    w, grad, step = model.w, model.grad, -sgd.lr
    total, seen = torch.zeros((), device=w.device, dtype=torch.float64), 0
    for index in plan.batches():
        x, y = samples.batch(index)
        grad.zero_()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            if correction is not None:
                correct(grad, w, correction)
            grad.add_(w, alpha=sgd.weight_decay)
            velocity.mul_(sgd.momentum).add_(grad)
            w.addcmul_(velocity, step)
            total += loss.detach() * len(index)
        seen += len(index)
    return total / max(seen, 1)


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
