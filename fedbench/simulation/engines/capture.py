"""Capturing: a step becomes a graph of what it did on the device, and a replay does it again without any Python."""

from collections.abc import Callable
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from fedbench.base.memory import raise_out_of_memory
from fedbench.methods.base import Step

WARM_UP = 3  # steps before a capture: libraries choose their kernels and take their memory in them

Replay = Callable[[], None]


class Capture(Protocol):
    """Makes graphs of steps that take no arguments."""

    def warm(self, step: Replay) -> None:
        """Run a step where it would be captured."""

    def record(self, step: Replay) -> Replay:
        """The replay of a step, which is not run by being recorded; raises RuntimeError where that cannot be done."""


@cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of this process for all captures on a device.

    cuBLAS keeps a workspace for every stream that it has been used on, for as long as the process lives.
    """
    return torch.cuda.Stream(device)


class CudaCapture:
    """Makes CUDA graphs: steps are warmed up on a side stream and captured there, in one memory pool for all graphs.

    The pool can be shared, since nothing in it outlives a replay: all results are in tensors from outside.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = side_stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def warm(self, step: Replay) -> None:
        """Run a step on the side stream, in its turn."""
        outer = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(outer)
        with torch.cuda.stream(self.stream):
            step()
        outer.wait_stream(self.stream)

    def record(self, step: Replay) -> Replay:
        """The replay of a step."""
        outer, graph = torch.cuda.current_stream(self.device), torch.cuda.CUDAGraph()
        try:
            with torch.cuda.device(self.device), torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                step()
        finally:
            torch.cuda.set_stream(outer)  # a capture that fails at its end leaves its own stream behind
        return graph.replay


class Repeated:
    """A server's step: run as it is until all is warm, then captured and replayed, a graph for each set of shapes.

    The first steps count, so that nothing has to be undone. Its arguments are copied into tensors that stay where they
    are; all else that it reads and writes must do so by itself. `failed` is told why a capture did not work.
    """

    def __init__(self, step: Step, capture: Capture, failed: Callable[[RuntimeError], None]) -> None:
        self.step, self.capture, self.failed = step, capture, failed
        self.calls: dict[object, int] = {}
        self.held: dict[object, list[Tensor]] = {}
        self.replays: dict[object, Replay] = {}

    def __call__(self, *given: Tensor) -> None:
        """One step, of whatever kind."""
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in given)
        self.calls[shapes] = self.calls.get(shapes, 0) + 1
        if self.calls[shapes] <= WARM_UP:
            self.capture.warm(lambda: self.step(*given))
            return
        if shapes not in self.held:
            self.held[shapes] = [tensor.clone() for tensor in given]
        for held, tensor in zip(self.held[shapes], given, strict=True):
            held.copy_(tensor)
        if shapes not in self.replays:
            self.replays[shapes] = self._captured(self.held[shapes])
        self.replays[shapes]()

    def _captured(self, held: list[Tensor]) -> Replay:
        """Return the replay of the step over tensors that are held, or the step itself if it cannot be captured.

        An error that says that memory is used up is raised: it does not mean that the step cannot be captured.
        """

        def step() -> None:
            self.step(*held)

        try:
            return self.capture.record(step)
        except RuntimeError as error:
            raise_out_of_memory(error)
            self.failed(error)
            return step
