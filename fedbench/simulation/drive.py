"""The one loop that drives a run, and its listeners: files, checkpoints, progress, reports, trackers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

Result = TypeVar("Result", covariant=True)


class Run(Protocol[Result]):
    """What can be driven: one federated run, or several in lockstep."""

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""

    def step(self) -> Result:
        """Run one round; returns what came of it."""


R = TypeVar("R", bound=Run[Any])
Seen = TypeVar("Seen", contravariant=True)


class Callback(Generic[R, Seen]):
    """A listener. `start` comes before the first round of this process, `end` once the run is done, not if stopped."""

    def start(self, run: R) -> None:
        """The run is about to be driven; it may have rounds behind it."""

    def round(self, run: R, seen: Seen) -> None:
        """A round has ended."""

    def end(self, run: R) -> None:
        """The run is done: all rounds have run, or it has diverged."""


def rounds(run: Run[Any], callbacks: Sequence[Callback[Any, Any]] = ()) -> Iterator[Any]:
    """Drive a run, a round at a time: yields what came of each, after all callbacks have heard of it."""
    for callback in callbacks:
        callback.start(run)
    while not run.done:
        seen = run.step()
        for callback in callbacks:
            callback.round(run, seen)
        yield seen
    for callback in callbacks:
        callback.end(run)


def drive(run: Run[Any], callbacks: Sequence[Callback[Any, Any]] = (), stop: Callable[[], int] = lambda: False) -> None:
    """Drive a run to its end, or until `stop()` says so after a round."""
    for _ in rounds(run, callbacks):
        if stop() and not run.done:
            return
