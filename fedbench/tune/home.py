"""The driver's side of a cluster without a shared folder: trials that were run elsewhere come home."""

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Self

import ray
from ray import tune

from fedbench.base.errors import UserError
from fedbench.base.files import write_bytes
from fedbench.data.base import DATASETS
from fedbench.simulation.federation import load_arrays
from fedbench.store.leases import HeldElsewhereError, Lease, dead, drop, read
from fedbench.store.store import Store
from fedbench.tune.away import tidy
from fedbench.tune.board import Board, StopNote
from fedbench.tune.freight import THERE, WANTED, hand_out, received, refuse
from fedbench.tune.nodes import Fleet, ask
from fedbench.tune.options import RunOptions
from fedbench.tune.versions import versions

SIGN = ".home-"  # before the name of the file by which workers know the folder
FETCH_SECONDS = 120.0
TIDY_SECONDS = 20.0
SERVE_SECONDS = 0.5  # between two looks at what workers want
RUNNING = ("running", None)  # statuses of a trial that has not ended
_TOLD: set[Path] = set()  # folders of which was said that they are not shared: a search comes here again and again


class Home(tune.Callback):
    """Where a command's trials belong, for the time of a `with` block; idle where the cluster is this machine alone.

    Workers that see a file in the driver's folder write there. Others send what they have when a trial ends; until
    then the driver holds the trial's lease for them. `asked`: whether trials were asked to stop.
    """

    def __init__(self, options: RunOptions, say: Callable[[str], None], *, idle: bool) -> None:
        self.options, self.say, self.idle = options, say, idle
        self.store = Store(options.out)
        self.asked: Callable[[], int] = lambda: 0
        self.board = Board(uuid.uuid4().hex)
        self._sign = Lease(self.store.out.resolve() / "leases" / f"{SIGN}{self.board.command}")
        self.fleet = Fleet(str(self._sign.file), self._sign.owner)
        self._leases: dict[str, ExitStack] = {}
        self._stack, self._served = ExitStack(), 0.0
        self._came, self._name = False, ""

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks into the (disposable) experiment folder; all of this stays here."""
        return {}

    def __enter__(self) -> Self:
        if self.idle:
            return self
        for left in self._sign.file.parent.glob(f"{SIGN}*"):  # by commands that were killed
            if (holder := read(left)) and dead(holder):
                drop(left, holder)
        with ExitStack() as stack:
            stack.enter_context(self._sign)
            stack.callback(self._go)
            self.fleet.check()
            self._name = self.store.name()
            self._stack = stack.pop_all()
        self._tell()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._came:
            finished = [path.name for path in self.store.trials.glob("[0-9a-f]*")]
            ask(self.fleet.apart(), tidy, self._name, finished, seconds=TIDY_SECONDS)
        self._stack.close()

    def _go(self) -> None:
        """Give everything back."""
        for hash_ in list(self._leases):
            self._release(hash_)
        with suppress(Exception):  # the cluster may be gone, and its notes with it
            self.board.clear()

    def about(self) -> dict[str, Any] | None:
        """What workers must know, as plain data; None where they are all on this machine."""
        if self.idle:
            return None
        return {
            "command": self.board.command,
            "name": self._name,
            "sign": str(self._sign.file),
            "owner": self._sign.owner,
            "versions": dict(versions()),
            "refused": sorted(self.fleet.refused),
        }

    def late(self) -> list[str]:
        """Ask the nodes that have joined meanwhile; a line for each that gets no trials."""
        return [] if self.idle else [f"{line}; it gets no trials" for line in self.fleet.late()]

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Tune goes round its loop: tell workers to stop, and give them the data that they want."""
        if self.idle or time.monotonic() - self._served < SERVE_SECONDS:
            return
        self._served = time.monotonic()
        if self.asked() and self.board.read(StopNote.NAME) is None:
            self.board.post(StopNote.NAME)
        there = {name.removeprefix(THERE) for name in self.board.names(THERE)}
        for name in {name.removeprefix(WANTED) for name in self.board.names(WANTED)} - there:
            self._hand_out(name)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """A trial's process has died."""
        self._release(trial.config.get("trial", {}).get("hash", ""))

    def taken_in(self, result: dict[str, Any]) -> dict[str, Any]:
        """What a trial reports, its files in the store if it has ended elsewhere. Lost files make it a lost trial."""
        hash_, status = result.get("hash", ""), result.get("status")
        if status == "away":
            self._hold(hash_)
            return {}
        if status in RUNNING:
            return result
        try:
            if reference := result.get("freight"):
                self._unload(hash_, received(reference, FETCH_SECONDS))
        except (ray.exceptions.RayError, ValueError):
            return {**result, "status": "lost"}
        except OSError as error:  # a full disk, say; the worker has it, and the next command will ask again
            return {**result, "status": "failed", "reason": str(error)}
        finally:
            self._release(hash_)
        return result

    def _unload(self, hash_: str, freight: dict[str, dict[str, bytes]]) -> None:
        self.store.take(hash_, freight["entry"])
        for name, content in freight["more"].items():
            if not {"..", "/"} & set(PurePosixPath(name).parts):
                place = Path(self.store.out, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(place, content)
        self._came = True

    def _hand_out(self, name: str) -> None:
        self.say(f"sending data set {name} to nodes that lack it")
        try:
            hand_out(name, load_arrays(DATASETS.get(name), self.options.data_dir), self.board)
        except (UserError, ray.exceptions.RayError) as error:
            refuse(name, str(error), self.board)

    def _hold(self, hash_: str) -> None:
        """Take the lease of a trial that runs elsewhere; if another command has it, it is run twice at worst."""
        self._tell(late=True)
        self._release(hash_)
        lease = ExitStack()
        with suppress(HeldElsewhereError):
            lease.enter_context(Lease(self.store.lease(hash_)))
            self._leases[hash_] = lease

    def _release(self, hash_: str) -> None:
        if lease := self._leases.pop(hash_, None):
            lease.close()

    def _tell(self, *, late: bool = False) -> None:
        """Say once that results travel, and what becomes of checkpoints."""
        if self.options.out in _TOLD or not (late or self.fleet.apart()):
            return
        _TOLD.add(self.options.out)
        kept = (
            "" if self.options.checkpoints else "; checkpoints stay on the nodes (--checkpoints keeps them elsewhere)"
        )
        self.say(f"nodes do not share {self.options.out}: results come home through Ray{kept}")
