"""Python values as tensors and back, bit for bit: how the state of somebody else's object gets into a checkpoint."""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

FORM = "form"  # the tensor that says, in JSON, how the others make up the values


class Unkeepable(TypeError):
    """A value, or part of one, that no tensors can stand for; its text is the value's name and type."""


class Kind(NamedTuple):
    """A type of values, told apart by what simpler value each is made of: made(plain(value)) is the value again."""

    type: type
    plain: Callable[[Any], Any]
    made: Callable[[Any], Any]


KINDS: Mapping[str, Kind] = {
    "tuple": Kind(tuple, list, tuple),
    "dict": Kind(dict, lambda value: [list(item) for item in value.items()], dict),
    "deque": Kind(deque, lambda value: [list(value), value.maxlen], lambda parts: deque(*parts)),
    "numpy": Kind(np.ndarray, lambda value: _tensor(value), lambda tensor: tensor.numpy()),
    "scalar": Kind(np.generic, lambda value: _tensor(np.asarray(value)), lambda tensor: tensor.numpy()[()]),
}


def keep(values: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Tensor]:
    """Values by name as tensors by name, on the CPU; `kinds` adds types to those of Python, numpy and torch."""
    tensors: list[Tensor] = []
    form: dict[str, Any] = {}
    for name, value in values.items():
        try:
            form[name] = _form(value, {**KINDS, **kinds}, tensors)
        except Unkeepable as error:
            raise Unkeepable(f"{name} (of type {error})") from None
    text = torch.frombuffer(bytearray(json.dumps(form).encode()), dtype=torch.uint8)
    return {FORM: text, **{str(number): tensor for number, tensor in enumerate(tensors)}}


def kept(tensors: Mapping[str, Tensor], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The values that `keep` was given, as new objects."""
    form = json.loads(bytes(tensors[FORM].cpu().numpy()))
    return {name: _value(part, {**KINDS, **kinds}, tensors) for name, part in form.items()}


def _form(value: Any, kinds: Mapping[str, Kind], tensors: list[Tensor]) -> Any:
    """A value as JSON: plain ones and lists as they are, others as {kind: parts}, tensors by their number."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_form(part, kinds, tensors) for part in value]
    if type(value) is Tensor:
        tensors.append(value.detach().cpu().clone())
        return {"tensor": len(tensors) - 1}
    for name, kind in kinds.items():
        if type(value) is kind.type or (kind.type is np.generic and isinstance(value, np.generic)):
            return {name: _form(kind.plain(value), kinds, tensors)}
    raise Unkeepable(type(value).__name__)


def _value(form: Any, kinds: Mapping[str, Kind], tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(form, Sequence) and not isinstance(form, str):
        return [_value(part, kinds, tensors) for part in form]
    if not isinstance(form, Mapping):
        return form
    ((name, parts),) = form.items()
    if name == "tensor":
        return tensors[str(parts)].cpu().clone()
    return kinds[name].made(_value(parts, kinds, tensors))


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    try:
        return torch.from_numpy(np.array(array, order="C"))
    except TypeError:  # texts, objects and the like
        raise Unkeepable(f"array of {array.dtype}") from None
