"""Run one trial from its newest checkpoint and store its outcome."""

import hashlib
import json
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from fedbench.base.plugins import described
from fedbench.config import TrialConfig
from fedbench.simulation import Callback, Record, Simulation
from fedbench.simulation.checkpoint import Checkpoints, Stopped, restore, save
from fedbench.simulation.drive import rounds
from fedbench.simulation.engines import CaptureFailed
from fedbench.store.folder import TrialFolder
from fedbench.store.leases import Lease
from fedbench.store.mark import Status
from fedbench.store.memory import reset_peak_memory
from fedbench.store.mirror import Mirror
from fedbench.store.models import final_model
from fedbench.store.store import MARKER, Store, StoredTrial

CHECKPOINT_SECONDS = 30.0


class Destination(Protocol):
    """The receiver of a trial's checkpoints and result: a store, or a worker's connection to a store elsewhere.

    complaints: lines about problems that did not end the trial.
    """

    complaints: list[str]

    def checkpoints(self, hash_: str) -> Path:
        """Return the folder for the checkpoints of a trial."""

    def accept(self, hash_: str, files: Mapping[str, bytes], model: bytes | None) -> None:
        """Store the files of a complete entry and, beside it, the final model; OSError if that is impossible."""


def execute(
    config: TrialConfig,
    store: Store,
    data_dir: Path | None,
    callbacks: Sequence[Callback[Simulation, Record]] = (),
    device: Callable[[], str] = lambda: "auto",
    mirror: Mirror | None = None,
    save_model: bool = False,
) -> StoredTrial:
    """Run a trial in this process, unless the store has it, and return its entry; see `run_trial` for the arguments.

    OSError is raised if the file system prevents an entry (see `run_trial`), `Stopped` if a callback stops the run,
    and `HeldElsewhereError` if another process runs the trial.
    """
    if not store.finished([config.hash]):
        with Lease(store.lease(config.hash)):
            if not store.finished([config.hash]):  # else another process has stored it in this moment
                store.mend()
                for _ in run_trial(config, store, data_dir, callbacks, device, mirror, save_model):
                    pass
    stored = store.get(config.hash)
    if stored is None:
        raise OSError(f"{store.trials / config.hash}: not there, or damaged, after it was written")
    return stored


def run_trial(
    config: TrialConfig,
    destination: Destination,
    data_dir: Path | None,
    callbacks: Sequence[Callback[Simulation, Record]] = (),
    device: Callable[[], str] = lambda: "auto",
    mirror: Mirror | None = None,
    save_model: bool = False,
) -> Iterator[Record]:
    """Run a trial from its newest checkpoint, yield the record of every round, and store the outcome.

    device: names the device where the config leaves it open; mirror: a second place for the checkpoints; save_model:
    whether to keep the final model beside the entry.

    An exception becomes an entry with its reason, and the next command tries the trial again from its last checkpoint.
    Some exceptions are raised instead, since they say nothing about the trial: `Stopped`, `CaptureFailed` if that
    warning is an error, and an OSError of the file system, which then names a path.
    """
    try:
        yield from _rounds(config, destination, data_dir, callbacks, device, mirror, save_model)
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        # A full disk does not say where.
        raise OSError(error.errno, error.strerror, str(destination.checkpoints(config.hash).parents[1])) from error
    except (Stopped, CaptureFailed):
        raise
    except Exception as error:
        if _from_file_system(error):
            raise OSError(str(error)) from error
        record_failure(destination, config.hash, error)


def _rounds(
    config: TrialConfig,
    destination: Destination,
    data_dir: Path | None,
    callbacks: Sequence[Callback[Simulation, Record]],
    device: Callable[[], str],
    mirror: Mirror | None,
    save_model: bool,
) -> Iterator[Record]:
    simulation = Simulation(config.on(device()) if config.run.device == "auto" else config, data_dir)
    reset_peak_memory(simulation.device)
    checkpoints = destination.checkpoints(config.hash)
    if mirror:
        mirror.fetch()
    destination.complaints += restore(simulation, checkpoints)
    saving = [Checkpoints(checkpoints, seconds=CHECKPOINT_SECONDS), *([mirror] if mirror else [])]
    yield from rounds(simulation, [*callbacks, *saving, Entry(destination, save_model)])


def _from_file_system(error: BaseException) -> bool:
    """Return whether an error was raised from an error of the file system."""
    cause = error.__cause__
    return cause is not None and (isinstance(cause, OSError) or _from_file_system(cause))


class Entry(Callback[Simulation, Record]):
    """Hands the files of a finished run to the destination."""

    def __init__(self, destination: Destination, save_model: bool) -> None:
        self.destination, self.save_model = destination, save_model

    def end(self, run: Simulation) -> None:
        """Store the run. If the file system prevents it, keep the last state, so that no round is run again."""
        try:
            with tempfile.TemporaryDirectory(prefix="fedbench-entry-") as path:
                with TrialFolder(Path(path), run.config) as folder:
                    folder.start(run)
                    folder.end(run)
                files = {file.name: file.read_bytes() for file in sorted(Path(path).iterdir())}
            status, reason = folder.summary["status"], folder.summary["reason"]
            model = final_model(run) if self.save_model and status == "done" else None
            entry = marked(files, run.config.hash, status, reason, folder.summary)
            self.destination.accept(run.config.hash, entry, model)
        except OSError:
            with suppress(OSError):
                save(run, self.destination.checkpoints(run.config.hash))
            raise


def record_failure(destination: Destination, hash_: str, error: Exception) -> None:
    """Store a trial that crashed, with its reason; call it while the error is being handled."""
    reason = described(error)
    files = {"traceback.txt": traceback.format_exc().encode()}
    destination.accept(hash_, marked(files, hash_, "failed", reason, {}), None)


def marked(
    files: Mapping[str, bytes], hash_: str, status: Status, reason: str | None, summary: dict[str, Any]
) -> dict[str, bytes]:
    """Return the files of an entry together with the mark that makes them one: their checksums and the outcome."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    mark = {"hash": hash_, "status": status, "reason": reason, "summary": summary, "files": sums}
    return {**files, MARKER: json.dumps(mark, allow_nan=False).encode()}
