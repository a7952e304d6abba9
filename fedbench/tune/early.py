"""Ray, started in the background while a command still imports torch and reads its study. Ray is imported late here."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedbench.base.signals import delay, kept
from fedbench.tune import supervise
from fedbench.tune.options import RunOptions

POLL_SECONDS = 0.05  # between two looks whether it has started
END_SECONDS = 3.0  # for a start that nobody wants any more to come to its end


class Start:
    """A cluster on its way, in a thread that lives as long as this process: Linux ends Ray's processes with it.

    Ray takes SIGTERM for itself when it connects. So who starts it does not hear that signal meanwhile; the thread
    does, and gives it back to Python.
    """

    pending: "Start | None" = None  # one that a command has begun, and has not asked for yet

    def __init__(self, options: RunOptions) -> None:
        from fedbench.tune import lean  # here, since two threads had better not import at the same time

        self._ray, self._options = lean, options
        self._context: Any = None
        self._error: Exception | None = None
        self._done, self._unwanted, self._telling = threading.Event(), False, threading.Lock()
        supervise.child.tell(supervise.STARTING)
        delay()
        threading.Thread(target=self._run, name="starting Ray", daemon=True).start()

    def _run(self) -> None:
        delay(until_told=False)
        try:
            with kept():
                self._context = self._ray.start(self._options, before_connecting=delay)
        except Exception as error:  # Ray raises anything here, bare Exceptions, too
            self._error = error
        delay(until_told=False)
        with self._telling:
            if not self._unwanted:
                supervise.child.tell(supervise.STARTED)
        if self._unwanted:
            self._ray.stop()
        self._done.set()
        threading.Event().wait()

    def context(self) -> Any:
        """What `ray.init` returns, once Ray is there; what went wrong, if something did."""
        while not self._done.wait(POLL_SECONDS):  # in pieces, so that signals are heard
            pass
        delay(until_told=False)
        if self._error:
            raise self._error
        return self._context

    def end(self) -> None:
        """End Ray. A start that takes longer is left to its thread, and to the end of this process."""
        with self._telling:
            self._unwanted = True
            supervise.child.tell(supervise.STOPPING)
        if self._done.wait(END_SECONDS):
            self._ray.stop()
        supervise.child.tell(supervise.STOPPED)
        delay(until_told=False)


def joined() -> bool:
    """Whether this process is part of a cluster already: a notebook, or a test, brought its own."""
    ray = sys.modules.get("ray")
    return ray is not None and Start.pending is None and bool(ray.is_initialized())


def take(options: RunOptions) -> Start:
    """The start that was begun, or a new one."""
    start, Start.pending = Start.pending or Start(options), None
    return start


@contextmanager
def ahead(options: RunOptions, likely: bool) -> Iterator[None]:
    """Begin now, if it is likely that a Ray will be started here and it takes a while to know for sure.

    What was begun and not taken in the block ends with it. Where torch is there already, there is no time to win.
    """
    try:
        if likely and not (options.address or joined() or "torch" in sys.modules):
            Start.pending = Start(options)
        yield
    finally:
        start, Start.pending = Start.pending, None
        if start:
            start.end()
