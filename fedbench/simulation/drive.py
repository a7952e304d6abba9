"""The loop that runs a simulation round by round, and the base class of its callbacks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

Result = TypeVar("Result", covariant=True)


class Run(Protocol[Result]):
    """Something that runs round by round: one federated run, or several in lockstep."""

    @property
    def done(self) -> bool:
        """Whether all rounds have been run."""

    def step(self) -> Result:
        """Run one round and return its result."""


R = TypeVar("R", bound=Run[Any])
Seen = TypeVar("Seen", contravariant=True)


class Callback(Generic[R, Seen]):
    """Base class of callbacks, which receive the events of a run. All hooks do nothing by default."""

    def start(self, run: R) -> None:
        """Called before the first round in this process. A resumed run has finished rounds already."""

    def round(self, run: R, seen: Seen) -> None:
        """Called after every round with its result."""

    def end(self, run: R) -> None:
        """Called when all rounds have been run or the run has diverged, but not if it was stopped."""


def rounds(run: Run[Any], callbacks: Sequence[Callback[Any, Any]] = ()) -> Iterator[Any]:
    """Run round by round, and yield the result of each round after all callbacks have received it."""
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
    """Run to the end, or until `stop()` returns true after a round."""
    for _ in rounds(run, callbacks):
        if stop() and not run.done:
            return
