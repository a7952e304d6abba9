"""A stand-in for CUDA graphs on a CPU: what torch is asked to do in a step is recorded, and done again at a replay.

As in a CUDA graph, Python does not run again: every operation is repeated on the very tensors, and with the very
numbers, of the capture. A step that reads a tensor of one client, or a learning rate, at its capture repeats that one.
And as there, a step that is recorded has not been run: whatever it wrote to is as it was.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

Step = Callable[[], None]


class Recorder(TorchDispatchMode):
    """Keeps every operation with its arguments and results, and all memory as it was before the first that saw it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self.before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor) and leaf.untyped_storage().data_ptr() not in self.before:
                memory = leaf.untyped_storage()
                self.before[memory.data_ptr()] = (memory, memory.clone())
        given = tree_map(_alias, (args, kwargs or {}))
        out = func(*args, **(kwargs or {}))
        if not func.is_view and torch.Tag.inplace_view not in func.tags:  # those show the same memory as before
            self.operations.append((func, *given, tree_map(_alias, out)))
        return out

    def undo(self) -> None:
        """Put all memory back."""
        for memory, before in self.before.values():
            memory.copy_(before)


def _alias(value: Any) -> Any:
    """The same memory in the shape that it has now, which operations such as squeeze_ change."""
    return value.detach() if isinstance(value, Tensor) else value


class Graph:
    """A recorded step."""

    def __init__(self, step: Step) -> None:
        with torch.random.fork_rng(devices=[]), Recorder() as recorder:
            step()
        recorder.undo()
        self.operations = recorder.operations
        self.replays = 0

    @torch.no_grad()
    def replay(self) -> None:
        """Do it all again, every result into the memory that it had."""
        self.replays += 1
        for func, args, kwargs, out in self.operations:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Recording:
    """A capture, as `graphed` wants one, that keeps a log of replays and counts steps that were run to warm up."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.log: list[int] = []
        self.warmed = 0

    def warm(self, step: Step) -> None:
        self.warmed += 1
        step()

    def record(self, step: Step) -> Step:
        number, graph = len(self.graphs), Graph(step)
        self.graphs.append(graph)

        def replay() -> None:
            self.log.append(number)
            graph.replay()

        return replay


class Uncaptured:
    """A capture that leaves steps as they are."""

    def warm(self, step: Step) -> None:
        step()

    def record(self, step: Step) -> Step:
        return step


class Failing(Recording):
    """A capture whose n-th record, and every later one, raises as CUDA does."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at, self.asked = at, 0

    def record(self, step: Step) -> Step:
        self.asked += 1
        if self.asked >= self.at:
            Graph(step)
            raise RuntimeError("operation not permitted when stream is capturing\nand more lines")
        return super().record(step)


class Exhausted(Recording):
    """A capture that finds no memory. `hidden`: another error is then raised as the capture ends, as torch does."""

    def __init__(self, error: RuntimeError, *, hidden: bool) -> None:
        super().__init__()
        self.error, self.hidden = error, hidden

    def record(self, step: Step) -> Step:
        try:
            raise self.error
        finally:
            if self.hidden:
                raise RuntimeError("operation failed due to a previous error during capture")


class Lossy(Recording):
    """A capture that goes wrong in silence: its graphs leave the last operation out."""

    def record(self, step: Step) -> Step:
        replay = super().record(step)
        self.graphs[-1].operations.pop()
        return replay
