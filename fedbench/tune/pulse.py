"""Whether Ray itself is alive: the processes of a cluster that was started here."""

import time
from typing import Any

import psutil
from ray import tune

VITAL = {"gcs_server": "control store", "raylet": "node manager"}
LOOK_SECONDS = 1.0


class RayDied(BaseException):
    """A process of Ray's own has died. No Exception: at one, Tune would first talk to its workers, and wait."""


class Pulse(tune.Callback):
    """Looks after Ray's processes that this one has started; none where the cluster is somebody else's."""

    def __init__(self) -> None:
        self._vital = [(VITAL[child.name()], child) for child in psutil.Process().children() if child.name() in VITAL]
        self._looked = 0.0

    @property
    def here(self) -> bool:
        """Whether the cluster is of this process, and so of this machine alone."""
        return bool(self._vital)

    def __getstate__(self) -> dict[str, object]:
        """Tune pickles its callbacks into the (disposable) experiment folder."""
        return {}

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Tune goes round its loop, which it would do for ever without Ray."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for what, process in self._vital:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                raise RayDied(f"Ray's {what} has died")
