"""The worker's side of a cluster without a shared folder: trials that are run away from home, and sent there."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import ray

from fedbench.base.plugins import import_modules
from fedbench.config.naming import SHORT_HASH
from fedbench.data.official import cache_dir
from fedbench.data.supply import supply_from
from fedbench.simulation.checkpoint import Sign
from fedbench.store.leases import read
from fedbench.store.mirror import Mirror
from fedbench.store.store import Status, Store
from fedbench.tune.board import Board, StopNote
from fedbench.tune.freight import fetched, sent
from fedbench.tune.luggage import unpacked
from fedbench.tune.versions import complaint, versions

OWN = ("trials", "checkpoints", "leases", "damaged")  # a store's; what else is below its folder is of trackers


class OtherVersionError(Exception):
    """This node is not fit to run trials of the command; the message says why."""


def sees(sign: str, owner: str) -> bool:
    """Whether this machine sees the driver's folder: a file in it, which is there while the command runs."""
    holder = read(Path(sign))
    return holder is not None and holder["owner"] == owner


def away_folder(name: str) -> Path:
    """Where trials of a folder that this machine does not see are kept: below its cache, or a temporary folder."""
    for root in (cache_dir(), Path(tempfile.gettempdir(), "fedbench")):
        folder = root / "away" / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        except OSError as problem:
            error = problem
    raise error


def settle(params: Mapping[str, Any]) -> None:
    """Make this process ready for trials of a command: its code, and data that this machine lacks.

    OtherVersionError where it cannot be, and UserError for a module that cannot be imported.
    """
    if home := params.get("home"):
        if line := complaint(ray.util.get_node_ip_address(), versions(), home["versions"]):
            raise OtherVersionError(line)
        board = Board(home["command"])
        supply_from(lambda name: fetched(name, board))
    import_modules(*unpacked(params["modules"], params["folder"]))


@dataclass(frozen=True)
class Place:
    """Where a trial is run: its store, and what stops it. `away`: not in the driver's folder."""

    store: Store
    stop: Sign
    away: bool

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Place":
        """That of a trial: the driver's folder, if this machine sees it."""
        home = params.get("home")
        if not home or sees(home["sign"], home["owner"]):
            return cls(Store(Path(params["out"])), Path(params["stop"]), away=False)
        return cls(Store(away_folder(home["name"])), StopNote(Board(home["command"])), away=True)

    @contextmanager
    def mirror(self, params: Mapping[str, Any], warn: Callable[[str], Any]) -> Iterator[Mirror | None]:
        """The second place for a trial's checkpoints, if there is one."""
        if not params["checkpoints"]:
            yield None
            return
        with Mirror(params["checkpoints"], params["hash"], self.store.checkpoints(params["hash"]), warn) as mirror:
            yield mirror

    def freight(self, hash_: str, status: str) -> dict[str, str]:
        """What goes home of a trial that has ended: its entry, and what trackers wrote of it, as a reference."""
        stored = self.store.get(hash_) if self.away and status in get_args(Status) else None
        return {"freight": sent({"entry": stored.files(), "more": self._tracked(hash_)})} if stored else {}

    def _tracked(self, hash_: str) -> dict[str, bytes]:
        """The files of trackers on a trial, by their paths in the folder; they bear its short hash."""
        paths = {path.relative_to(self.store.out): path for path in self.store.out.rglob("*") if path.is_file()}
        return {
            place.as_posix(): path.read_bytes()
            for place, path in paths.items()
            if place.parts[0] not in OWN and hash_[:SHORT_HASH] in place.as_posix()
        }


def tidy(name: str, home: list[str]) -> None:
    """Remove the copies of trials that are home, and checkpoints of such that have ended on another node.

    If no other trial has anything there, all there is goes.
    """
    store = Store(away_folder(name))
    for hash_ in home:
        shutil.rmtree(store.trials / hash_, ignore_errors=True)
        shutil.rmtree(store.checkpoints(hash_), ignore_errors=True)
    if not any(path for part in OWN for path in (store.out / part).glob("*")):
        shutil.rmtree(store.out, ignore_errors=True)
