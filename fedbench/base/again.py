"""The running command once more, in place of itself: the way on where a library holds the main thread for good.

The process keeps its id, its files and whoever waits for it; all its threads and its memory give way to a fresh start
of the same command line. What is done is in the store, so that it goes on where it stopped.
"""

import ctypes
import os
import sys
from typing import NoReturn

from fedbench.base.signals import heard

COUNT = "FEDBENCH_AGAIN"  # how often that has been done, and the signal that had asked for a stop before, or 0
LEFT_OUT = "--fresh"  # has done its part
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER

_command = False


def allow() -> None:
    """Say that this process is a command: not a notebook, nor a test that calls one.

    From now on processes whose parents die are this one's children, where the system can do that (Linux): so that it
    can end them.
    """
    global _command
    given = sys.argv[1:]
    _command = sys.orig_argv[len(sys.orig_argv) - len(given) :] == given
    if _command and sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def possible() -> bool:
    """Whether this process may be replaced."""
    return _command


def before() -> tuple[int, int]:
    """How often the command has been started again, and by which signal it was being stopped then; told once."""
    times, _, signal = os.environ.pop(COUNT, "0 0").partition(" ")
    return int(times), int(signal)


def start(times: int) -> NoReturn:
    """Start the command again, for the so manyeth time."""
    sys.stdout.flush()
    sys.stderr.flush()
    line = [part for part in sys.orig_argv if part != LEFT_OUT]
    os.execve(sys.executable, line, {**os.environ, COUNT: f"{times} {heard()}"})
