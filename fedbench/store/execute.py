"""Running one trial into the store: from its newest checkpoint, with every outcome as an entry."""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from fedbench.config import TrialConfig
from fedbench.simulation import Callback, Record, Simulation, drive
from fedbench.simulation.checkpoint import Checkpoints, Stopped, restore
from fedbench.store.environment import reset_peak_memory
from fedbench.store.folder import TrialFolder
from fedbench.store.leases import Lease
from fedbench.store.mirror import Mirror
from fedbench.store.store import Store, StoredTrial

CHECKPOINT_SECONDS = 30.0


def execute(
    config: TrialConfig,
    store: Store,
    data_dir: Path | None,
    callbacks: Sequence[Callback[Simulation, Record]] = (),
    device: Callable[[], str] = lambda: "auto",
    mirror: Mirror | None = None,
) -> StoredTrial:
    """Run a trial unless the store has it, on the device that `device()` names where the config leaves it open.

    mirror: a second place for its checkpoints.

    An exception becomes an entry with its reason, tried again by the next command; one of the file system is not the
    trial's fault and is raised, and so are `Stopped` and, where another process runs it, `HeldElsewhereError`.
    """
    if store.finished([config.hash]):
        return _stored(config, store)
    with Lease(store.lease(config.hash)):
        if not store.finished([config.hash]):  # else by another process, just now
            _run(config, store, data_dir, callbacks, device, mirror)
    return _stored(config, store)


def _stored(config: TrialConfig, store: Store) -> StoredTrial:
    stored = store.get(config.hash)
    if stored is None:
        raise OSError(f"{store.trials / config.hash}: not there, or damaged, after it was written")
    return stored


def _run(
    config: TrialConfig,
    store: Store,
    data_dir: Path | None,
    callbacks: Sequence[Callback[Simulation, Record]],
    device: Callable[[], str],
    mirror: Mirror | None,
) -> None:
    """Run a trial from its newest checkpoint, and store what becomes of it."""
    store.mend()
    try:
        simulation = Simulation(config.on(device()) if config.run.device == "auto" else config, data_dir)
        reset_peak_memory(simulation.device)
        checkpoints = store.checkpoints(config.hash)
        if mirror:
            mirror.fetch()
        store.complaints += restore(simulation, checkpoints)
        saving = [Checkpoints(checkpoints, seconds=CHECKPOINT_SECONDS), *([mirror] if mirror else [])]
        drive(simulation, [*callbacks, *saving, Entry(store)])
    except (OSError, Stopped):
        raise
    except Exception as error:
        record_failure(store, config.hash, error)


class Entry(Callback[Simulation, Record]):
    """Writes a run that is done into the store, all at once."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def end(self, run: Simulation) -> None:
        """The folder of the run, then its mark."""
        with self.store.entry(run.config.hash) as path:
            with TrialFolder(path, run.config) as folder:
                folder.start(run)
                folder.end(run)
            summary = folder.summary
            self.store.commit(path, run.config.hash, summary["status"], summary["reason"], summary)


def record_failure(store: Store, hash_: str, error: Exception) -> None:
    """Store a trial that crashed, with its reason; called while the error is being handled."""
    with store.entry(hash_) as folder:
        (folder / "traceback.txt").write_text(traceback.format_exc())
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        store.commit(folder, hash_, "failed", reason, {})
