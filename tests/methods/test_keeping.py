"""What a stranger's object remembers goes into tensors and comes back as it was."""

import io
from collections import deque
from typing import Any

import numpy as np
import pytest
import torch

from fedbench.methods.keeping import Kind, Unkeepable, keep, kept

VALUES: dict[str, Any] = {
    "nothing": None,
    "flag": True,
    "count": 2**70,
    "number": 0.1 + 0.2,
    "endless": float("inf"),
    "text": "müde {",
    "list": [1, [2.5, "a"], []],
    "tuple": (1, (None,)),
    "dict": {"a": 1, 2: {"b": (3,)}, (4, 5): []},
    "recent": deque([1, 2], maxlen=3),
    "tensor": torch.arange(3),
    "array": np.array([[1.5, np.nan], [-0.0, 1e-40]], dtype=np.float32),
    "turned": np.arange(6).reshape(2, 3).T,
    "empty": np.zeros((0, 2), dtype=np.int8),
    "scalar": np.float64(0.1),
    "arrays": [np.ones(2), {"m": np.zeros(1)}],
}


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, list | tuple | deque):
        lengths = getattr(one, "maxlen", 0) == getattr(other, "maxlen", 0) and len(one) == len(other)
        return lengths and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def through_a_file(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    stream = io.BytesIO()
    torch.save(tensors, stream)
    loaded: dict[str, torch.Tensor] = torch.load(io.BytesIO(stream.getvalue()), weights_only=True)
    return loaded


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_bit_for_bit_from_a_checkpoint(name: str) -> None:
    tensors = keep({name: VALUES[name]}, {})
    assert same(kept(through_a_file(tensors), {})[name], VALUES[name])


def test_what_is_kept_does_not_change_with_the_original() -> None:
    array, tensor = np.zeros(2), torch.zeros(2)
    tensors = keep({"array": array, "tensor": tensor}, {})
    array += 1
    tensor += 1
    first = kept(tensors, {})
    assert not first["array"].any()
    assert not first["tensor"].any()
    first["tensor"] += 1
    assert not kept(tensors, {})["tensor"].any()


class Point:
    def __init__(self, x: float) -> None:
        self.x = x


def test_a_kind_of_ones_own_is_kept_by_what_it_is_made_of() -> None:
    kinds = {"Point": Kind(Point, lambda point: point.x, Point)}
    assert kept(keep({"at": [Point(0.5)]}, kinds), kinds)["at"][0].x == 0.5


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object(), "object"),
        ([{1, 2}], "set"),
        (np.array(["a"]), "array of <U1"),
        (np.random.default_rng(), "Generator"),
    ],
)
def test_what_cannot_be_kept_is_named(value: Any, kind: str) -> None:
    with pytest.raises(Unkeepable, match=f"^mine \\(of type {kind}\\)$"):
        keep({"fine": 1, "mine": value}, {})
