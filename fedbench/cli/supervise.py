"""Carry out the job of a command in a child process, and start the child again if it dies.

Ray ends the process that uses it when Ray's own processes die. All results are in the store, so the same job in a new
process goes on where it stopped. The child is forked before anything large is imported; the parent only waits for it.
Both processes are in one process group: Ctrl-C, Ctrl-Z and `fg` reach the child as they reach any program.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from fedbench.base.signals import STOPS, Interrupted, expect_twice
from fedbench.base.text import say
from fedbench.cli.command import FAILED
from fedbench.jobs.job import Process

PREPARED, ENDED, STOPPED = b"p", b"e", b"s"  # what a child writes to its parent
SAME_SECONDS = 1.0  # in which the child takes the terminal's Ctrl-C and the one that the parent forwards for one


class Child(Process):
    """The supervised process that carries out the job of a command; `pipe` leads to its parent."""

    def __init__(self, pipe: int, prepared_before: bool = False) -> None:
        self._pipe, self.prepared_before = pipe, prepared_before
        self._stopping, self._announced = False, False

    def prepared(self) -> None:
        """Let the parent know that the job is prepared, so that a later child does not prepare it again."""
        os.write(self._pipe, PREPARED)

    def ended(self) -> None:
        """Let the parent know that this process ends by itself, so that it is not started again."""
        os.write(self._pipe, ENDED)

    def stop(self, number: int, tidy: Callable[[], None] = lambda: None) -> None:
        """Tidy up and exit because of a signal; exit at once because of a second one.

        An exception might be lost in the middle of an import.
        """
        if self._stopping and not self._announced:  # a signal during the first lines of the first call
            return
        if not self._stopping:
            self._stopping = True
            say("interrupted", sys.stderr)
            os.write(self._pipe, ENDED + STOPPED)  # Ray may end this process first, with an exit code of its own
            self._announced = True
            tidy()
        os._exit(Interrupted(number).code)

    def restart(self, reason: str) -> NoReturn:
        """Exit, so that the parent starts the job again."""
        say(reason, sys.stderr)
        os._exit(1)


def supervised(work: Callable[[Child], int], restarts: int, again: str) -> int:
    """Do the work in a child, and again at most `restarts` times if the child dies; return the exit code.

    again: the command that goes on with the work, which is printed if no restart is left.

    The parent forwards SIGINT, SIGTERM and SIGHUP as SIGINT, for which Ray installs no handler of its own, and returns
    the exit code of the signal that it got. A child that dies after that is not started again.
    """
    received = b""
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until there are handlers, and again at the end
    for left in reversed(range(restarts + 1)):
        reports, pipe = os.pipe()
        alive, kept_open = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reports)
            os.close(kept_open)
            threading.Thread(target=_exit_with_parent, args=(alive,), daemon=True).start()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # so do Ray's processes, which inherit it
            expect_twice(SAME_SECONDS)
            child = Child(pipe, PREPARED in received)
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
                return work(child)
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # nothing is left to stop
                child.ended()
        os.close(pipe)
        os.close(alive)
        code, asked = _wait(pid, unblocked)
        while new := os.read(reports, 64):
            received += new
        os.close(reports)
        os.close(kept_open)
        if ENDED in received:
            stopped = STOPPED in received or code == 128 + signal.SIGINT
            return 128 + asked if asked and stopped else code
        if code == 128 + signal.SIGALRM:
            say("Ray did not start in time", sys.stderr)
        what = "starting it again" if left else f"giving up; go on with: {again}"
        say(f"the command's process has ended unexpectedly ({code}); {'stopping' if asked else what}", sys.stderr)
        if asked:
            return 128 + asked
    return FAILED


def _exit_with_parent(alive: int) -> NoReturn:
    """Wait for the parent to die, which closes the other end of the pipe, then end this process at once."""
    os.read(alive, 1)
    os._exit(1)


def _wait(pid: int, unblocked: set[int | signal.Signals]) -> tuple[int, int]:
    """Wait for a child; return its exit code, as shells count it, and the first signal that was forwarded, or 0.

    unblocked: the mask of signals that is set while there are handlers; the others are blocked before and after.
    """
    asked = 0

    def forward(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = asked or number
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)

    before = {n: signal.signal(n, forward) for n in STOPS if signal.getsignal(n) is not signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code, asked
