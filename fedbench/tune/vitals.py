"""Ray's own processes, and whether they are alive. Ray is not imported here."""

from contextlib import suppress

import psutil

VITAL = {"gcs_server": "control store", "raylet": "node manager"}
CONTROL = VITAL["gcs_server"]
MOST_LOOKS = 300  # for Ray's processes to come to be
END_SECONDS = 5.0  # for processes that were killed to be gone


class Vitals:
    """Ray's processes that this one, or one below it, has started; none where the cluster is somebody else's.

    What was dead before, and has not been taken note of by who started it, was of an earlier cluster.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, psutil.Process, list[str]]] = {}
        self._looks = 0
        self._before = {child.pid for child in psutil.Process().children(recursive=True) if not _alive(child)}

    def there(self) -> bool:
        """Whether there are any."""
        self._look()
        return bool(self._known)

    def trouble(self) -> str:
        """What has died, in words; empty if all that has been started is alive."""
        if len(self._known) < len(VITAL) and self._looks < MOST_LOOKS:
            self._look()
        return next((f"Ray's {what} has died" for what, process, _ in self._known.values() if not _alive(process)), "")

    def _look(self) -> None:
        """Take note of those that have come to be: it means to go through all processes of the machine."""
        self._looks += 1
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if child.pid not in self._known.keys() | self._before and (what := VITAL.get(child.name())):
                    self._known[child.pid] = what, child, child.cmdline() if _alive(child) else []

    def lost_store(self) -> list[str]:
        """The command line of a control store that has died, if one has."""
        lines = [line for what, process, line in self._known.values() if what == CONTROL and not _alive(process)]
        return lines[0] if lines else []


def strangers() -> frozenset[psutil.Process]:
    """All processes that this one has started, and those that they have, but Ray's, which may be on its way already."""
    found: set[psutil.Process] = set()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.name() not in VITAL:
                found |= {child, *child.children(recursive=True)}
    return frozenset(found)


def end_children(but: frozenset[psutil.Process] = frozenset()) -> None:
    """End all processes that this one has started, and those that they have, but some."""
    children = [child for child in psutil.Process().children(recursive=True) if child not in but]
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children, timeout=END_SECONDS)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
