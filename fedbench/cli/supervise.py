"""Run the work of a command in a child process, and start it again if the child dies.

Ray ends the process that uses it when Ray's own processes die. All results are in the store, so the same work in a new
process goes on where it stopped. The parent is forked before anything large is imported and does nothing but wait.
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

from fedbench.base.signals import STOPS, Interrupted, expect_twice, interrupt
from fedbench.base.text import say
from fedbench.cli.command import FAILED

PREPARED, ENDED, STOPPED = b"p", b"e", b"s"  # what a child writes to its parent
SAME_SECONDS = 1.0  # in which the child takes the terminal's Ctrl-C and the one that the parent forwards for one


class Child:
    """The process that does the work. Without a pipe it is not supervised: a notebook or a test.

    prepared_before: whether an earlier child had made everything ready, and under --fresh retired the old results.
    """

    def __init__(self, pipe: int | None = None, prepared_before: bool = False) -> None:
        self._pipe, self.prepared_before = pipe, prepared_before
        self._stopping, self._said = False, False

    def prepared(self) -> None:
        """Tell the parent that a later child must not make everything ready again."""
        self._tell(PREPARED)

    def ended(self) -> None:
        """Tell the parent that this process ends by itself, and is not to be started again."""
        self._tell(ENDED)

    def stop(self, number: int, tidy: Callable[[], None] = lambda: None) -> None:
        """Tidy up and end because of a signal; at once because of a second one.

        An exception might be raised, and lost, in the middle of an import.
        """
        if self._pipe is None:
            interrupt(number)
        if self._stopping and not self._said:  # a signal that came while this was answering the first one
            return
        if not self._stopping:
            self._stopping = True
            say("interrupted", sys.stderr)
            self._tell(ENDED + STOPPED)  # Ray may end this process first, with an exit code of its own
            self._said = True
            tidy()
        os._exit(Interrupted(number).code)

    def restart(self, reason: str) -> None:
        """End, so that the parent starts the work again; return if there is no parent."""
        if self._pipe is not None:
            say(reason, sys.stderr)
            os._exit(1)

    def _tell(self, what: bytes) -> None:
        if self._pipe is not None:
            os.write(self._pipe, what)


def supervised(work: Callable[[Child], int], restarts: int, again: str) -> int:
    """Do the work in a child, again if it dies, at most `restarts` times; return the exit code.

    again: the command that goes on with the work, for the user who reads that it was given up.

    The parent forwards SIGINT, SIGTERM and SIGHUP as SIGINT, for which Ray installs no handler of its own, and returns
    the exit code of the signal that it got. A child that dies after that is not started again.
    """
    told = b""
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
            child = Child(pipe, PREPARED in told)
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
            told += new
        os.close(reports)
        os.close(kept_open)
        if ENDED in told:
            stopped = STOPPED in told or code == 128 + signal.SIGINT
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
