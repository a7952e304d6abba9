"""Models whose parameters, gradients and running statistics are stored in three flat vectors."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedbench.base.errors import UserError
from fedbench.models.precision import Precision

LayerGroups = Literal["module", "tensor"]


@dataclass(frozen=True)
class Span:
    """A range of the flat vector that holds one tensor or one module: its name, start and stop."""

    name: str
    start: int
    stop: int

    @property
    def at(self) -> slice:
        """The range as a slice: W[:, span.at] has shape [m, stop - start] and the element order of `FlatModel`.

        Norms, cosines and other sums over the elements do not depend on that order. For everything else, use
        `TensorSpan.view`.
        """
        return slice(self.start, self.stop)


@dataclass(frozen=True)
class TensorSpan(Span):
    """The range of the flat vector that holds one tensor, and the tensor's shape in its module."""

    shape: torch.Size

    def view(self, flat: Tensor) -> Tensor:
        """View the tensor [..., *shape] in one vector [P] or several vectors [..., P], sharing their memory."""
        piece, lead = flat[..., self.at], flat.shape[:-1]
        if len(self.shape) != 4:
            return piece.view((*lead, *self.shape))
        o, i, h, w = self.shape
        return piece.view((*lead, o, h, w, i)).movedim(-1, -3)


class Layers(NamedTuple):
    """The ranges of the flat vector in order: one for each tensor, and one for each module that has tensors."""

    tensors: tuple[TensorSpan, ...]
    modules: tuple[Span, ...]

    def by(self, groups: LayerGroups) -> tuple[Span, ...]:
        """The spans of all tensors or of all modules."""
        return self.modules if groups == "module" else self.tensors


class FlatModel:
    """A model as a function of a flat vector.

    `w` [P] holds all parameters, `grad` [P] their gradients and `buffers` [Q] the running statistics of batch norm
    (Q = 0 without it); all are read and written in place. `momenta` maps the batch-norm layers to their momentum.
    Forward and backward passes may use a lower `precision` than the vectors; logits and gradients have the vectors'
    dtype.

    Element order: the tensors follow one another as in `named_parameters` and `named_buffers`. A 4-d tensor of shape
    (O, I, H, W) is stored channels-last, as (O, H, W, I); any other tensor is stored in row-major order.
    `torch.nn.utils.vector_to_parameters` assumes row-major order for all tensors and would permute the weights of a
    convolution. Use `layers.tensors` for views in the original shapes, and `to_state_dict` and `from_state_dict` to
    convert.
    """

    def __init__(self, module: nn.Module, device: torch.device, precision: Precision | torch.dtype) -> None:
        self.module = module
        self.precision = precision if isinstance(precision, Precision) else Precision(precision)
        dtype = self.precision.dtype
        self.momenta = {layer: layer.momentum for layer in module.modules() if isinstance(layer, _BatchNorm)}
        for layer in self.momenta:
            layer.num_batches_tracked = None  # the count is not used, because the momentum is constant
        parameters = list(module.named_parameters())
        buffers = [(name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point()]
        self.layers = _layers(_spans(parameters))
        self.shapes = [span.shape for span in self.layers.tensors]
        self.offsets = [0, *(span.stop for span in self.layers.tensors)]
        self._parameters = _every_name(self.layers.tensors, parameters, module.named_parameters(remove_duplicate=False))
        self._statistics = _every_name(_spans(buffers), buffers, module.named_buffers(remove_duplicate=False))
        self.w = torch.empty(self.offsets[-1], device=device, dtype=dtype)
        self.grad = torch.zeros_like(self.w)
        for (_, parameter), view, grad in zip(parameters, self.views(self.w), self.views(self.grad), strict=True):
            view.copy_(parameter.detach())
            parameter.data, parameter.grad = view, grad
        self.buffers = torch.empty(sum(buffer.numel() for _, buffer in buffers), device=device, dtype=dtype)
        for name, span in self._statistics.items():
            view, buffer = span.view(self.buffers), module.get_buffer(name)
            view.copy_(buffer)
            owner, _, leaf = name.rpartition(".")
            module.get_submodule(owner)._buffers[leaf] = view

    def __call__(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of images [B, C, H, W]."""
        with self.precision.forward(self.w.device):
            logits: Tensor = self.module(x)
        return logits if self.precision.autocast is None else logits.to(self.precision.dtype)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradient of a loss, a 0-d tensor, and store it in `grad`."""
        self.grad.zero_()
        with self.precision.backward():
            loss.backward()

    @contextmanager
    def in_full(self) -> Iterator[None]:
        """A context in which passes have the precision of the vectors, as second derivatives need it."""
        before, self.precision = self.precision, Precision(self.precision.dtype)
        try:
            yield
        finally:
            self.precision = before

    @torch.no_grad()
    def load(self, w: Tensor, buffers: Tensor) -> None:
        """Copy parameters [P] and running statistics [Q] into the model."""
        self.w.copy_(w)
        self.buffers.copy_(buffers)

    def views(self, flat: Tensor) -> list[Tensor]:
        """View a vector [P] as tensors with the parameters' shapes, sharing its memory."""
        return [span.view(flat) for span in self.layers.tensors]

    def train(self, mode: bool = True) -> None:
        """Switch to train mode (batch statistics) or, with False, to eval mode (running statistics).

        The batch-norm layers get their original momentum back.
        """
        self.module.train(mode)
        for layer, momentum in self.momenta.items():
            layer.momentum = momentum

    def to_state_dict(self, w: Tensor, buffers: Tensor) -> dict[str, Tensor]:
        """Convert parameters [P] and running statistics [Q] to a state dict of a plain module.

        The tensors are copies on the CPU in contiguous memory.
        """
        views = self._views(w, buffers)
        tensors = {name: views.get(name, tensor) for name, tensor in self.module.state_dict().items()}
        return {
            name: tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }

    @torch.no_grad()
    def from_state_dict(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Convert a state dict to new vectors [P] and [Q] with the dtype and device of `w`.

        Integer buffers, such as batch norm's count of batches, are ignored. A tensor that is missing, unknown or of
        another shape raises UserError.
        """
        w, buffers = torch.empty_like(self.w), self.buffers.clone()
        own, views = self.module.state_dict(), self._views(w, buffers)
        for name in state:
            if name not in own and not name.endswith(".num_batches_tracked"):
                raise UserError(f"state dict: the model has no tensor '{name}'")
        for name, view in views.items():
            if name not in own:  # a buffer that is not part of the module's state dict
                continue
            if name not in state:
                raise UserError(f"state dict: lacks the model's tensor '{name}'")
            if state[name].shape != view.shape:
                shapes = f"{tuple(state[name].shape)}; must be {tuple(view.shape)}"
                raise UserError(f"state dict: the tensor '{name}' has the shape {shapes}")
            view.copy_(state[name])
        return w, buffers

    @torch.no_grad()
    def copy_into(self, module: nn.Module, w: Tensor, buffers: Tensor) -> None:
        """Copy parameters [P] and running statistics [Q] into a plain module of the same architecture."""
        views = self._views(w, buffers)
        for name, tensor in chain(module.named_parameters(), module.named_buffers()):
            if name in views:
                tensor.copy_(views[name])

    def _views(self, w: Tensor, buffers: Tensor) -> dict[str, Tensor]:
        """Views of all tensors in two vectors [P] and [Q], under every name that the module has for them."""
        parameters = {name: span.view(w) for name, span in self._parameters.items()}
        return parameters | {name: span.view(buffers) for name, span in self._statistics.items()}


def _spans(tensors: Iterable[tuple[str, Tensor]]) -> tuple[TensorSpan, ...]:
    """The spans of named tensors that are stored one after the other."""
    spans, start = list[TensorSpan](), 0
    for name, tensor in tensors:
        spans.append(TensorSpan(name, start, start + tensor.numel(), tensor.shape))
        start += tensor.numel()
    return tuple(spans)


def _every_name(
    spans: Iterable[TensorSpan], tensors: Iterable[tuple[str, Tensor]], names: Iterable[tuple[str, Tensor]]
) -> dict[str, TensorSpan]:
    """Map all `names` to spans. A tensor that several modules share has several names, but only one span."""
    by_tensor = {id(tensor): span for span, (_, tensor) in zip(spans, tensors, strict=True)}
    return {name: by_tensor[id(tensor)] for name, tensor in names if id(tensor) in by_tensor}


def _layers(tensors: tuple[TensorSpan, ...]) -> Layers:
    """The given spans of tensors, with the spans of the modules that own them."""
    owned = groupby(tensors, key=lambda span: span.name.rpartition(".")[0])
    pieces = [(owner, list(spans)) for owner, spans in owned]
    return Layers(tensors, tuple(Span(owner, spans[0].start, spans[-1].stop) for owner, spans in pieces))
