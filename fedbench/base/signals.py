"""Signals that ask a command to stop: Ctrl-C, what Slurm, Kubernetes and Docker send, and a terminal that closes."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to stop; `code` is the exit code that says which: 130, 143 or 129."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"signal {number}")
        self.code = 128 + number


def interrupt(number: int) -> NoReturn:
    """Stop at once."""
    raise Interrupted(number)


class Ear:
    """Who is told of a signal; `heard`: the one that it was told of, 0 if there was none."""

    def __init__(self, answer: Callable[[int], None]) -> None:
        self.answer, self.heard = answer, 0

    def __call__(self, number: int, _frame: object) -> None:
        """Answer."""
        self.heard = number
        self.answer(number)

    @property
    def unheeded(self) -> bool:
        """Whether it stopped everything, and yet everything goes on: some library took that for an error of its own.

        Imports may, where they try whether something is there.
        """
        return bool(self.heard) and self.answer is interrupt


@contextmanager
def heeding(answer: Callable[[int], None] = interrupt) -> Iterator[None]:
    """Let `answer` hear of the signals for the time of a block: all of them, but those that are ignored (nohup).

    Ctrl-C always counts. Libraries that were started meanwhile may have put themselves before an outer block. Where an
    outer block was to stop at once, and has not, it stops now.
    """
    if threading.current_thread() is not threading.main_thread():  # no signals there
        yield
        return
    counting = [n for n in STOPS if n == signal.SIGINT or signal.getsignal(n) is not signal.SIG_IGN]
    for outer in map(signal.getsignal, counting):
        if isinstance(outer, Ear) and outer.unheeded:
            interrupt(outer.heard)
    ear = Ear(answer)
    before = {number: signal.signal(number, ear) for number in counting}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def delay(number: int = signal.SIGTERM, *, until_told: bool = True) -> None:
    """Let a signal wait at this thread, and at those that it starts from now on; or no longer."""
    signal.pthread_sigmask(signal.SIG_BLOCK if until_told else signal.SIG_UNBLOCK, {number})


@contextmanager
def kept(number: int = signal.SIGTERM) -> Iterator[None]:
    """Python's answer to a signal is the same after a block as before, from whichever thread.

    Libraries put their own in its place below Python, where `heeding` does not see it: Ray, for a backtrace at SIGTERM.
    """
    import ctypes  # late: nothing else needs it

    here = ctypes.pythonapi
    here.PyOS_getsig.restype = ctypes.c_void_p
    before = ctypes.c_void_p(here.PyOS_getsig(int(number)))
    try:
        yield
    finally:
        here.PyOS_setsig(int(number), before)
