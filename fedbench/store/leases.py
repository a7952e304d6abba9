"""Leases: who runs a trial right now, so that commands on one folder share the work instead of doing it twice.

A lease is a file OUT/leases/HASH that names its holder. It comes to be by a hard link, which of many at a time one
alone can make, on NFS, too. While it is held a thread renews it every few seconds: the time of its last change changes.

No clock is compared with another one. A lease is stale once that has not happened for STALE_SECONDS by the clock of who
watches it, or at once where its process was of this machine and is gone. At worst a trial is run twice, with the
same bytes.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from fedbench.base.files import machine, read_bytes, scratch, write_json

BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
LARGEST = 2**16  # bytes of a lease; ours have some hundreds


class HeldElsewhereError(Exception):
    """Another process runs the trial; the message names it."""


class Lease:
    """The right to run a trial while a `with` block lasts; HeldElsewhereError if another process has it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._holder: dict[str, Any] = {
            "owner": uuid.uuid4().hex,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            **_process(),
        }
        self._holder["since"] = time.strftime("%Y-%m-%d %H:%M:%S")
        self._file = -1  # descriptor
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._keep_beating, daemon=True)

    @property
    def owner(self) -> str:
        """Return the unique id of this holder."""
        return str(self._holder["owner"])

    def __enter__(self) -> Self:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if not self._linked():
            holder = read(self.file)
            if holder and not dead(holder):
                raise HeldElsewhereError(told(holder))
            drop(self.file, holder)
            if not self._linked():
                raise HeldElsewhereError(told(read(self.file)))
        self._beating.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._beating.join()
        os.close(self._file)
        holder = read(self.file)
        if holder and holder["owner"] == self._holder["owner"]:
            with suppress(OSError):  # a lease that nobody renews is soon stale; what was done under it counts
                self.file.unlink(missing_ok=True)

    def _linked(self) -> bool:
        """Create the lease unless there is one, and return whether that worked.

        A reply that NFS lost shows as a second link to our file.
        """
        ours = scratch(self.file)
        try:
            write_json(ours, self._holder)
            with suppress(FileExistsError):
                os.link(ours, self.file)
            if ours.stat().st_nlink != 2:
                return False
            self._file = os.open(ours, os.O_RDONLY)
            return True
        finally:
            ours.unlink(missing_ok=True)

    def _keep_beating(self) -> None:
        """Renew our own file until the lease ends, even if another process has put its file in the place of ours."""
        while not self._over.wait(BEAT_SECONDS):
            with suppress(OSError):
                os.utime(self._file)


class Watch:
    """Watches the leases of other processes, to find those that are no longer renewed."""

    def __init__(self, patience: float = STALE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self.patience, self.clock = patience, clock
        self._seen: dict[Path, tuple[dict[str, Any], float]] = {}

    def holder(self, file: Path) -> str:
        """Return a description of a lease's holder, empty if there is none; remove the lease if it is stale."""
        holder, now = read(file), self.clock()
        if holder is None:
            return ""
        seen, since = self._seen.get(file, (None, now))
        if holder != seen:
            self._seen[file] = (holder, now)
            since = now
        if not dead(holder) and now - since < self.patience:
            return told(holder)
        drop(file, holder)
        return ""


def read(file: Path) -> dict[str, Any] | None:
    """Return the content of a lease and the time of its renewal; None if there is no lease.

    One that cannot be read counts as a lease of an unknown process.
    """
    try:
        content = json.loads(read_bytes(file, LARGEST))  # opened anew: NFS then asks for its state
        renewed = file.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        return {"owner": "unknown"}
    return {"owner": "unknown", **(content if isinstance(content, dict) else {}), "renewed": renewed}


def drop(file: Path, holder: dict[str, Any] | None) -> None:
    """Remove a lease, unless it has changed since it was read: another process may have taken it over."""
    if read(file) == holder:
        file.unlink(missing_ok=True)


def told(holder: dict[str, Any] | None) -> str:
    """Return a description of a holder."""
    return "process {pid} on {host}".format(**{"pid": "?", "host": "?", **(holder or {})})


def dead(holder: dict[str, Any]) -> bool:
    """Return whether the holder was a process of this machine and has ended; False for other machines."""
    here = _process()
    if not here or holder.get("machine") != here["machine"]:
        return False
    return _started(holder.get("pid")) != holder.get("started")


def _process() -> dict[str, Any]:
    """Return what identifies this process: its start and its machine; empty if the system does not tell them."""
    return {"machine": machine(), "started": _started(os.getpid())} if machine() else {}


def _started(pid: Any) -> str | None:
    """Return when a process of this machine was started, in ticks since boot; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
