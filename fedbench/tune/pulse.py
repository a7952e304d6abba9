"""Looking after Ray from within: from Tune's loop, and from a thread where no parent does (`supervise`)."""

import ctypes
import subprocess
import threading
import time
from typing import Any, Self

from ray import tune

from fedbench.base.linux import die_with_parent
from fedbench.tune import supervise
from fedbench.tune.vitals import Vitals, end_children, strangers

LOOK_SECONDS = 1.0
HELD_SECONDS = 5.0  # for who is outside of Ray to see that it has died


class RayDied(BaseException):
    """A process of Ray's own has died. No Exception: at one, Tune would first talk to its workers, and wait."""

    def __str__(self) -> str:
        return super().__str__() or "Ray has died"


class Pulse(tune.Callback):
    """Looks after Ray from Tune's loop, which would go round for ever without Ray."""

    def __init__(self) -> None:
        self._vitals = Vitals()
        self._looked = 0.0

    @property
    def here(self) -> bool:
        """Whether the cluster is of this process, and so of this machine alone."""
        return self._vitals.there()

    def __getstate__(self) -> dict[str, object]:
        """Tune pickles its callbacks into the (disposable) experiment folder."""
        return {}

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Tune goes round its loop."""
        if supervise.child.supervised or time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        if trouble := self._vitals.trouble():
            raise RayDied(trouble)


class Guard:
    """Ray starts, works and stops in this `with` block: a supervised command's parent is told.

    Elsewhere a thread looks after Ray, since the one that works waits inside Ray when that can no longer answer.
    """

    def __init__(self) -> None:
        self._vitals = Vitals()
        self._worker = threading.get_ident()
        self._stopping = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._others = strangers()

    def __enter__(self) -> Self:
        supervise.child.tell(supervise.STARTING)
        if not supervise.child.supervised:
            self._thread.start()
        return self

    def started(self) -> None:
        """Ray is there."""
        supervise.child.tell(supervise.STARTED)

    def stopping(self) -> None:
        """Ray is about to be stopped: its processes end."""
        self._stopping = True
        supervise.child.tell(supervise.STOPPING)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if supervise.child.supervised:
            end_children(self._others)
            supervise.child.tell(supervise.STOPPED)
        else:
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if not self._stopping and self._vitals.trouble():
                if not self._over.wait(HELD_SECONDS):
                    self._free()
                return

    def _free(self) -> None:
        """Let go who is held inside Ray: an empty control store in place of the lost one answers; then RayDied."""
        line, standing_in = self._vitals.lost_store(), None
        if line:
            quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            standing_in = subprocess.Popen(line, preexec_fn=die_with_parent, **quiet)
        if not self._stopping:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._worker), ctypes.py_object(RayDied))
        self._over.wait()
        if standing_in:
            standing_in.kill()
            standing_in.wait()
