"""Counts, on a CPU, what would make the host wait for a GPU."""

import traceback
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Their result, or its size, has to be known to the host.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "bincount", "_unique2", "unique_dim"}
MASKED = {"index", "index_put", "index_put_", "_index_put_impl_"}  # with a bool mask they look for its nonzero places
COPYING = {"cpu", "tolist"}  # to the host; on a CPU no operation is seen of them


class Copies(TorchFunctionMode):
    """What is copied to the host; a copy to the CPU by `to` is written with its name, as in x.to("cpu")."""

    def __init__(self, places: list[str]) -> None:
        super().__init__()
        self.places = places

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in COPYING or (name == "to" and "cpu" in args):
            self.places.append(f"{name} at {_place()}")
        return func(*args, **(kwargs or {}))


class Syncs(TorchDispatchMode):
    """Everything in here that would wait, with the line of fedbench that asked for it.

    Copies from the host cannot be seen on a CPU: tests/simulation/test_devices.py keeps them in one place.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.places: list[str] = []
        self.copies = Copies(self.places)

    def __enter__(self) -> "Syncs":
        self.copies.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self.copies.__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = any(isinstance(leaf, Tensor) and leaf.dtype == torch.bool for leaf in tree_leaves(args[1:2]))
        if name in WAITING or (name in MASKED and masks):
            self.places.append(f"{name} at {_place()}")
        return func(*args, **(kwargs or {}))


def _place() -> str:
    """The innermost line that is not torch's own, nor this file's."""
    for frame in reversed(traceback.extract_stack()):
        if "/torch/" not in frame.filename and frame.filename != __file__:
            return f"{frame.filename}, line {frame.lineno}: {frame.line}"
    return "unknown"
