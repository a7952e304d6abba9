"""Signals that ask a command to stop: Ctrl-C, what Slurm, Kubernetes and Docker send, and a terminal that closes."""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
AGAIN_SECONDS = 0.01  # until a signal that came at a bad moment comes again
LOCKS_OF_IMPORTS = "<frozen importlib._bootstrap>"  # the file, as frames have it


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to stop; `code` is the exit code that says which: 130, 143 or 129."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"signal {number}")
        self.number = number
        self.code = 128 + number


def interrupt(number: int) -> NoReturn:
    """Stop at once."""
    raise Interrupted(number)


class Ear:
    """Who is told of a signal; `heard`: the one that it was told of, 0 if there was none."""

    def __init__(self, answer: Callable[[int], None]) -> None:
        self.answer, self.heard = answer, 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Answer; a moment later where Python is between two imports.

        An exception there can leave the lock of all imports with this thread for good, and others waiting for it.
        """
        if frame is not None and frame.f_code.co_filename == LOCKS_OF_IMPORTS:
            send_again(number)
            return
        self.heard = number
        self.answer(number)

    @property
    def unheeded(self) -> bool:
        """Whether it stopped everything, and yet everything goes on: some library took that for an error of its own.

        Imports may, where they try whether something is there.
        """
        return bool(self.heard) and self.answer is interrupt


def send_again(number: int) -> None:
    """Let this process have a signal again in a moment. It takes no lock, so that it may be done in any moment."""

    def send() -> None:
        time.sleep(AGAIN_SECONDS)
        os.kill(os.getpid(), number)

    _thread.start_new_thread(send, ())


@contextmanager
def nothing_ignored() -> Iterator[None]:
    """Let a signal come again where Python ignores the exception that it raised: at the end of an object's life."""
    hook = sys.unraisablehook

    def tell(ignored: "sys.UnraisableHookArgs") -> None:
        if isinstance(ignored.exc_value, Interrupted):
            send_again(ignored.exc_value.number)
        else:
            hook(ignored)

    sys.unraisablehook = tell
    try:
        yield
    finally:
        sys.unraisablehook = hook


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
        with nothing_ignored():
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
