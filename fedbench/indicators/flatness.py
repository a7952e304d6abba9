"""Flatness of the loss around a model: top Hessian eigenvalues, and the loss along a direction."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fedbench.base.fields import Count, Strict, Whole
from fedbench.base.rng import generator
from fedbench.base.tensors import on_device
from fedbench.indicators.base import (
    NOTHING,
    Column,
    Indicator,
    Observation,
    RoundContext,
    Rows,
    RunContext,
    register_indicator,
)
from fedbench.models import FlatModel

Batches = Sequence[tuple[Tensor, Tensor]]
TOLERANCE = 1e-3  # relative accuracy of an eigenvalue
EIGENVALUES = 5
BATCH = 250
RESCALINGS = tuple(round(0.5 + 0.02 * i, 2) for i in range(31))  # 0.5 ... 1.1
STEPS = tuple(round(-1 + 0.1 * i, 1) for i in range(21))  # along a unit vector


class Spectrum(NamedTuple):
    """The k largest Hessian eigenvalues, descending, and the unit eigenvector [P] of the first."""

    values: list[float]
    top: Tensor


def hessian_product(model: FlatModel, batches: Batches) -> Callable[[Tensor], Tensor]:
    """V [P] -> H v [P], for the mean loss over `batches` at the model's present weights, in eval mode.

    One batch at a time, so that memory stays that of a batch.
    """
    parameters = list(model.module.parameters())
    total = sum(len(y) for _, y in batches)

    def product(v: Tensor) -> Tensor:
        model.train(False)
        directions, result = model.views(v), torch.zeros_like(v)
        for x, y in batches:
            with model.in_full():
                loss = F.cross_entropy(model(x), y, reduction="sum") / total
            gradients = torch.autograd.grad(loss, parameters, create_graph=True)
            slope = torch.stack([(g * d).sum() for g, d in zip(gradients, directions, strict=True)]).sum()
            seconds = torch.autograd.grad(slope, parameters, materialize_grads=True)
            for view, second in zip(model.views(result), seconds, strict=True):
                view.add_(second)
        return result

    return product


def top_eigenvalues(model: FlatModel, batches: Batches, k: int, start: NDArray[np.float64]) -> Spectrum:
    """The k largest eigenvalues of the Hessian by Lanczos iteration from the vector `start` [P].

    Where the loss is so flat that the Hessian is zero in floating point, all of them are 0, and `start` gives the
    direction of the first.
    """
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh  # half a second to import: for those who want it

    product = hessian_product(model, batches)

    def matvec(v: NDArray[np.float64]) -> NDArray[np.float64]:
        found = product(on_device(v.ravel(), model.w.device, model.w.dtype))
        result: NDArray[np.float64] = found.to("cpu", torch.float64).numpy()
        return result

    size, wanted = len(model.w), min(k, len(model.w) - 1)
    operator = LinearOperator((size, size), matvec=matvec, dtype=np.float64)
    try:
        values, vectors = eigsh(operator, k=wanted, which="LA", v0=start, tol=TOLERANCE)
    except ArpackError:  # also raised for a Hessian of zeros, which has nothing to iterate on
        if matvec(start).any():
            raise
        values, vectors = np.zeros(wanted), np.repeat(start[:, None], wanted, axis=1)
    order = np.argsort(values)[::-1]
    top = on_device(np.ascontiguousarray(vectors[:, order[0]]), model.w.device, model.w.dtype)
    return Spectrum([float(values[i]) for i in order], top / torch.linalg.vector_norm(top))


@torch.no_grad()
def mean_loss(model: FlatModel, batches: Batches) -> float:
    """Mean cross-entropy over `batches` at the model's present weights, in eval mode."""
    model.train(False)
    total = sum(len(y) for _, y in batches)
    losses = [F.cross_entropy(model(x), y, reduction="sum") for x, y in batches]
    return float(sum(torch.stack(losses).tolist())) / total


def loss_along(model: FlatModel, batches: Batches, direction: Tensor, steps: Sequence[float]) -> list[float]:
    """The mean loss at w + s * direction [P] for each step s; the model's weights are put back."""
    w, losses = model.w.clone(), []
    for step in steps:
        torch.add(w, direction, alpha=step, out=model.w)
        losses.append(mean_loss(model, batches))
    model.w.copy_(w)
    return losses


class FlatnessSettings(Strict):
    """When to compute the spectrum, and on how many images."""

    hessian_every: Whole = 0
    """rounds between top Hessian eigenvalues, 0 for none; the last round is always one"""
    hessian_samples: Count = 500
    """training images that they are computed on"""
    landscape: bool = False
    """at the end, the loss of the final model rescaled by gamma, and along the top Hessian eigenvector"""


@register_indicator()
class Flatness(Indicator[FlatnessSettings]):
    """Top eigenvalues of the training loss's Hessian over rounds, and the loss around the final model."""

    name = "flatness"
    Settings = FlatnessSettings
    final_tables = {
        "rescaled": ("gamma", "loss", "accuracy"),
        "landscape": ("step", "loss"),
    }

    def columns(self) -> Sequence[Column]:
        """The largest and the fifth eigenvalue, and their ratio."""
        return (
            Column("hessian_top1", "top Hessian eigenvalue"),
            Column("hessian_top5", "fifth Hessian eigenvalue"),
            Column("hessian_top1_top5", "Hessian eigenvalues, 1 over 5"),
        )

    def canonical(self, settings: FlatnessSettings) -> dict[str, object]:
        """The number of images counts where they are used."""
        form = super().canonical(settings)
        if not settings.hessian_every and not settings.landscape:
            del form["hessian_samples"]
        return form

    def observe(self, settings: FlatnessSettings, context: RoundContext) -> Observation:
        """The eigenvalues, where they are due."""
        if not context.due(settings.hessian_every):
            return NOTHING
        values = _spectrum(context, EIGENVALUES, settings.hessian_samples).values
        ratio = values[0] / values[-1] if values[-1] else None
        return Observation({"hessian_top1": values[0], "hessian_top5": values[-1], "hessian_top1_top5": ratio})

    def conclude(self, settings: FlatnessSettings, context: RunContext) -> Mapping[str, Rows]:
        """Test loss of gamma * w for a range of gammas; training loss along the top eigenvector."""
        if not settings.landscape:
            return {}
        scores = [(gamma, context.score(gamma * context.w)) for gamma in RESCALINGS]
        top = _spectrum(context, 1, settings.hessian_samples).top
        losses = loss_along(context.model, training_batches(context, settings.hessian_samples), top, STEPS)
        return {
            "rescaled": [(gamma, loss, accuracy) for gamma, (accuracy, loss) in scores],
            "landscape": list(zip(STEPS, losses, strict=True)),
        }


def _spectrum(context: RunContext, k: int, samples: int) -> Spectrum:
    """Of the global model as it is now; Lanczos iteration starts from the same vector in every round."""
    context.model.load(context.w, context.buffers)
    start = generator(context.seed, "lanczos").standard_normal(len(context.w))
    return top_eigenvalues(context.model, training_batches(context, samples), k, start)


def training_batches(context: RunContext, samples: int) -> Batches:
    """A fixed draw of the clients' training samples, in batches."""
    everything = np.sort(np.fromiter(chain.from_iterable(context.federation.split.shards), np.int64))
    order = generator(context.seed, "hessian").permutation(everything)[:samples]
    train = context.federation.train
    index = on_device(np.sort(order), train.labels.device)
    return [train.batch(part) for part in torch.split(index, BATCH)]
