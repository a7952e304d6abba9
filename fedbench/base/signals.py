"""Signals that ask a program to stop: Ctrl-C, what Slurm, Kubernetes and Docker send, and a terminal that closes."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to stop; `code` is the exit code that says which: 130, 143 or 129."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"signal {number}")
        self.number = number
        self.code = 128 + number


def interrupt(number: int) -> NoReturn:
    """Stop at once."""
    raise Interrupted(number)


class _Handler:
    """Passes signals on to `answer`; `heard` is the last one, 0 if there was none.

    same_within: seconds after a signal in which further ones are taken for the same one and ignored, whichever block
    gets them.
    """

    same_within, _last = 0.0, float("-inf")

    def __init__(self, answer: Callable[[int], None]) -> None:
        self.answer, self.heard = answer, 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - _Handler._last < self.same_within:
            return
        _Handler._last = now
        self.heard = number
        self.answer(number)


def expect_twice(seconds: float) -> None:
    """Ignore stop signals for some seconds after each: a terminal and a parent process may both send the same one."""
    _Handler.same_within = seconds


@contextmanager
def stop_signals(answer: Callable[[int], None] = interrupt) -> Iterator[None]:
    """Call `answer` with the number of every stop signal that arrives within the block.

    Signals that are ignored, as under nohup, stay ignored, except for Ctrl-C. The handlers from before are restored at
    the end. In threads other than the main one, which gets no signals, nothing changes. If the exception of an outer
    block was swallowed by a library, this block raises it again before it begins; if a library has raised another one
    from it, the block ends with the first one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [n for n in STOPS if n == signal.SIGINT or signal.getsignal(n) is not signal.SIG_IGN]
    for outer in map(signal.getsignal, numbers):
        if isinstance(outer, _Handler) and outer.heard and outer.answer is interrupt:
            interrupt(outer.heard)
    handler = _Handler(answer)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    except Exception as error:
        if handler.heard and _from_signal(error):
            raise Interrupted(handler.heard) from error
        raise
    finally:
        for number, previous in before.items():
            signal.signal(number, signal.SIG_DFL if previous is None else previous)


def _from_signal(error: BaseException) -> bool:
    """Return whether an error was raised from the exception of a signal."""
    cause = error.__cause__ or error.__context__
    return cause is not None and (isinstance(cause, Interrupted) or _from_signal(cause))
