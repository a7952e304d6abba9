"""Flatness of the loss around a model: top Hessian eigenvalues, and the loss along a direction."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from fedbench.models import FlatModel

Batches = Sequence[tuple[Tensor, Tensor]]
TOLERANCE = 1e-3  # relative accuracy of an eigenvalue


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
            loss = F.cross_entropy(model(x), y, reduction="sum") / total
            gradients = torch.autograd.grad(loss, parameters, create_graph=True)
            slope = torch.stack([(g * d).sum() for g, d in zip(gradients, directions, strict=True)]).sum()
            seconds = torch.autograd.grad(slope, parameters, materialize_grads=True)
            for view, second in zip(model.views(result), seconds, strict=True):
                view.add_(second)
        return result

    return product


def top_eigenvalues(model: FlatModel, batches: Batches, k: int, start: NDArray[np.float64]) -> Spectrum:
    """The k largest eigenvalues of the Hessian by Lanczos iteration from the vector `start` [P]."""
    product = hessian_product(model, batches)

    def matvec(v: NDArray[np.float64]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = product(torch.from_numpy(v.ravel()).to(model.w)).to("cpu", torch.float64).numpy()
        return result

    size = len(model.w)
    operator = LinearOperator((size, size), matvec=matvec, dtype=np.float64)
    values, vectors = eigsh(operator, k=min(k, size - 1), which="LA", v0=start, tol=TOLERANCE)
    order = np.argsort(values)[::-1]
    top = torch.from_numpy(np.ascontiguousarray(vectors[:, order[0]])).to(model.w)
    return Spectrum([float(values[i]) for i in order], top / torch.linalg.vector_norm(top))


@torch.no_grad()
def mean_loss(model: FlatModel, batches: Batches) -> float:
    """Mean cross-entropy over `batches` at the model's present weights, in eval mode."""
    model.train(False)
    total = sum(len(y) for _, y in batches)
    return sum(float(F.cross_entropy(model(x), y, reduction="sum")) for x, y in batches) / total


def loss_along(model: FlatModel, batches: Batches, direction: Tensor, steps: Sequence[float]) -> list[float]:
    """The mean loss at w + s * direction [P] for each step s; the model's weights are put back."""
    w, losses = model.w.clone(), []
    for step in steps:
        torch.add(w, direction, alpha=step, out=model.w)
        losses.append(mean_loss(model, batches))
    model.w.copy_(w)
    return losses
