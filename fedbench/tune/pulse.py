"""Whether Ray itself is alive: the processes of a cluster that was started here, and what to do when one is not."""

import ctypes
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import psutil
from ray import tune
from ray._private.utils import set_kill_on_parent_death_linux

from fedbench.base import again

VITAL = {"gcs_server": "control store", "raylet": "node manager"}
CONTROL = VITAL["gcs_server"]
LOOK_SECONDS = 1.0
STOP_SECONDS = 20.0  # for Ray to stop: it takes one or two, or a minute where its control store is gone
HELD_SECONDS = 5.0  # for who is outside of Ray to see that it has died
END_SECONDS = 5.0  # for processes that were killed to be gone


class RayDied(BaseException):
    """A process of Ray's own has died. No Exception: at one, Tune would first talk to its workers, and wait."""


class Vitals:
    """Ray's processes that this one has started; none where the cluster is somebody else's."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, psutil.Process, list[str]]] = {}

    def trouble(self) -> str:
        """What has died, in words; empty if all that has been started is alive."""
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if child.pid not in self._known and (what := VITAL.get(child.name())):
                    self._known[child.pid] = what, child, child.cmdline() if _alive(child) else []
        return next((f"Ray's {what} has died" for what, process, _ in self._known.values() if not _alive(process)), "")

    def lost_store(self) -> list[str]:
        """The command line of a control store that has died, if one has."""
        lines = [line for what, process, line in self._known.values() if what == CONTROL and not _alive(process)]
        return lines[0] if lines else []


class Pulse(tune.Callback):
    """Looks after Ray from Tune's loop, which would go round for ever without Ray."""

    def __init__(self) -> None:
        self._vitals = Vitals()
        self._looked = 0.0

    def __getstate__(self) -> dict[str, object]:
        """Tune pickles its callbacks into the (disposable) experiment folder."""
        return {}

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Tune goes round its loop."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        if trouble := self._vitals.trouble():
            raise RayDied(trouble)


class Restarts:
    """How often Ray may still be started again: `limit` times for one piece of work.

    A command is started again as a whole (`base.again`): whoever has talked to a control store that is gone may be held
    inside Ray, which ends the process after a minute. Elsewhere, in a notebook, the caller starts Ray again.
    """

    def __init__(self, limit: int, say: Callable[[str], None]) -> None:
        self.limit, self.say = limit, say
        self.deaths = 0
        self._answering = threading.Lock()

    @property
    def left(self) -> int:
        """How many are left; negative once Ray has died more often than that."""
        return self.limit - self.deaths

    def answer(self, trouble: str) -> None:
        """Say that Ray has died, and what becomes of it. Does not return in a command; whoever is second waits."""
        with self._answering:
            self.say(f"{trouble}; {'starting it again' if self.left > 0 else 'giving up'}")
            self.deaths += 1
            if again.possible():
                self.renew()

    def renew(self) -> None:
        """Start the command again, without what is left of Ray."""
        end_children()
        again.start(self.deaths)


class Guard:
    """Looks after Ray while it starts, works and stops, for the time of a `with` block.

    It does so from a thread, since the one that works waits inside Ray when that can no longer answer.
    """

    def __init__(self, restarts: Restarts) -> None:
        self.restarts = restarts
        self._vitals = Vitals()
        self._worker = threading.get_ident()
        self._stopping = float("inf")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._others = set(psutil.Process().children(recursive=True))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if again.possible():
            end_children(self._others)

    def stopping(self) -> None:
        """Ray is about to be stopped: its processes end, and should do so soon."""
        self._stopping = time.monotonic()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            late = time.monotonic() > self._stopping + STOP_SECONDS
            trouble = self._vitals.trouble() if late or self._stopping == float("inf") else ""
            if again.possible() and late:
                self.restarts.renew()  # all that was run is in the store
            elif again.possible() and trouble:
                self.restarts.answer(trouble)
            elif trouble and not self._over.wait(HELD_SECONDS):
                self._free()
                return

    def _free(self) -> None:
        """Let go who is held inside Ray: an empty control store in place of the lost one answers; then RayDied."""
        line = self._vitals.lost_store()
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        standing_in = subprocess.Popen(line, preexec_fn=set_kill_on_parent_death_linux, **quiet) if line else None
        if self._stopping == float("inf"):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._worker), ctypes.py_object(RayDied))
        self._over.wait()
        if standing_in:
            standing_in.kill()
            standing_in.wait()


def end_children(but: "set[psutil.Process] | None" = None) -> None:
    """End all processes that this one has started, and those that they have, but some."""
    children = [child for child in psutil.Process().children(recursive=True) if child not in (but or ())]
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children, timeout=END_SECONDS)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
