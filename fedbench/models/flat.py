"""A module whose parameters, gradients and running statistics are views of three flat vectors."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedbench.models.precision import Precision

LayerGroups = Literal["module", "tensor"]


class Span(NamedTuple):
    """A piece of the flat vector: whose it is, and where it starts and stops."""

    name: str
    start: int
    stop: int

    @property
    def at(self) -> slice:
        """To index [P] or [m, P] with: W[:, span.at]."""
        return slice(self.start, self.stop)


class Layers(NamedTuple):
    """The pieces of the flat vector in its order: a span for each tensor, and one for each module that has tensors."""

    tensors: tuple[Span, ...]
    modules: tuple[Span, ...]

    def by(self, groups: LayerGroups) -> tuple[Span, ...]:
        """The spans of tensors, or of modules."""
        return self.modules if groups == "module" else self.tensors


class FlatModel:
    """A model as a function of a flat vector.

    `w` [P] holds all parameters, `grad` [P] receives their gradients, `buffers` [Q] holds the running statistics of
    batch norm (Q = 0 without it); all are read and written in place. 4-d weights lie in memory as (O, H, W, I): they
    are channels-last for convolutions. `momenta` holds the layers of batch norm, each with its momentum. A `precision`
    may be less than that of the vectors in the passes through the model; logits and gradients have the vectors' dtype.
    """

    def __init__(self, module: nn.Module, device: torch.device, precision: Precision | torch.dtype) -> None:
        self.module = module
        self.precision = precision if isinstance(precision, Precision) else Precision(precision)
        dtype = self.precision.dtype
        self.momenta = {layer: layer.momentum for layer in module.modules() if isinstance(layer, _BatchNorm)}
        for layer in self.momenta:
            layer.num_batches_tracked = None  # momentum is a constant: the count is never used
        parameters = list(module.named_parameters())
        buffers = [(name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point()]
        self.shapes = [parameter.shape for _, parameter in parameters]
        self.offsets = _offsets([parameter for _, parameter in parameters])
        self.layers = _layers([name for name, _ in parameters], self.offsets)
        self.w = torch.empty(self.offsets[-1], device=device, dtype=dtype)
        self.grad = torch.zeros_like(self.w)
        for (_, parameter), view, grad in zip(parameters, self.views(self.w), self.views(self.grad), strict=True):
            view.copy_(parameter.detach())
            parameter.data, parameter.grad = view, grad
        offsets = _offsets([buffer for _, buffer in buffers])
        self.buffers = torch.empty(offsets[-1], device=device, dtype=dtype)
        for (name, buffer), span in zip(buffers, pairwise(offsets), strict=True):
            view = _view(self.buffers[slice(*span)], buffer.shape)
            view.copy_(buffer)
            owner, _, leaf = name.rpartition(".")
            module.get_submodule(owner)._buffers[leaf] = view

    def __call__(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of images [B, C, H, W]."""
        with self.precision.forward(self.w.device):
            logits: Tensor = self.module(x)
        return logits if self.precision.autocast is None else logits.to(self.precision.dtype)

    def backward(self, loss: Tensor) -> None:
        """Put the gradient of a loss, a 0-d tensor, into `grad`."""
        self.grad.zero_()
        with self.precision.backward():
            loss.backward()

    @contextmanager
    def in_full(self) -> Iterator[None]:
        """Passes in here have the precision of the vectors: for second derivatives, which rounding would drown."""
        before, self.precision = self.precision, Precision(self.precision.dtype)
        try:
            yield
        finally:
            self.precision = before

    @torch.no_grad()
    def load(self, w: Tensor, buffers: Tensor) -> None:
        """Copy parameters [P] and running statistics [Q] in."""
        self.w.copy_(w)
        self.buffers.copy_(buffers)

    def views(self, flat: Tensor) -> list[Tensor]:
        """A vector [P] as tensors of the parameters' shapes, sharing its memory."""
        spans = pairwise(self.offsets)
        return [_view(flat[slice(*span)], shape) for span, shape in zip(spans, self.shapes, strict=True)]

    def train(self, mode: bool = True) -> None:
        """Train mode (batch statistics) or, with False, eval mode (running statistics); batch norm at its momentum."""
        self.module.train(mode)
        for layer, momentum in self.momenta.items():
            layer.momentum = momentum

    def state_dict(self) -> dict[str, Tensor]:
        """The weights under their usual names, in the usual memory layout, on the CPU."""
        return {name: tensor.detach().cpu().contiguous() for name, tensor in self.module.state_dict().items()}


def _offsets(tensors: list[Tensor] | list[nn.Parameter]) -> list[int]:
    """Where each tensor starts in the flat vector, then the total."""
    offsets = [0]
    for tensor in tensors:
        offsets.append(offsets[-1] + tensor.numel())
    return offsets


def _layers(names: list[str], offsets: list[int]) -> Layers:
    """The spans of tensors by their names, and of the modules that own them."""
    tensors = tuple(Span(name, *ends) for name, ends in zip(names, pairwise(offsets), strict=True))
    owned = groupby(tensors, key=lambda span: span.name.rpartition(".")[0])
    pieces = [(owner, list(spans)) for owner, spans in owned]
    return Layers(tensors, tuple(Span(owner, spans[0].start, spans[-1].stop) for owner, spans in pieces))


def _view(flat: Tensor, shape: torch.Size) -> Tensor:
    """A piece of the flat vector as a tensor of `shape`, channels-last for 4-d weights."""
    if len(shape) != 4:
        return flat.view(shape)
    o, i, h, w = shape
    return flat.view(o, h, w, i).permute(0, 3, 1, 2)
