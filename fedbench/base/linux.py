"""Three things that Linux can do for a process; where the system cannot, nothing happens."""

import ctypes
import signal
import sys

DEATH_SIGNAL, SUBREAPER = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Let this process get a signal, by default the last one, when the one that started it ends, however it does."""
    _prctl(DEATH_SIGNAL, number)


def adopt_orphans() -> None:
    """Let processes whose parents have died be children of this one, if their parents were."""
    _prctl(SUBREAPER, 1)


def return_memory() -> None:
    """Give the system back what was freed. Glibc keeps it, for every thread that there was, by pieces of 64 MiB."""
    if trim := getattr(ctypes.CDLL(None) if sys.platform == "linux" else None, "malloc_trim", None):
        trim(0)


def _prctl(what: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)
