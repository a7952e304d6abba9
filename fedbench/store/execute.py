"""Running one trial into the store: from its newest checkpoint, with every outcome as an entry."""

import time
import traceback
from collections.abc import Callable
from pathlib import Path

from fedbench.config.trial import TrialConfig
from fedbench.simulation import Record, Simulation, checkpoint
from fedbench.store.environment import reset_peak_memory
from fedbench.store.folder import TrialFolder
from fedbench.store.store import Store, StoredTrial

CHECKPOINT_SECONDS = 30.0

OnRound = Callable[[Simulation, Record], None]


def execute(
    config: TrialConfig,
    store: Store,
    data_dir: Path | None,
    on_round: OnRound,
    device: Callable[[], str] = lambda: "auto",
) -> StoredTrial:
    """Run a trial unless the store has it, on the device that `device()` names where the config leaves it open.

    An exception becomes an entry with its reason, tried again by the next command; one of the file system is not the
    trial's fault and is raised.
    """
    present = store.get(config.hash)
    if present and present.status != "failed":
        return present
    try:
        if config.run.device == "auto":
            config = config.model_copy(update={"run": config.run.model_copy(update={"device": device()})})
        _run(config, store, data_dir, on_round)
    except OSError:
        raise
    except Exception as error:
        record_failure(store, config.hash, error)
    stored = store.get(config.hash)
    if stored is None:
        raise OSError(f"{store.trials / config.hash}: not there after it was written")
    return stored


def record_failure(store: Store, hash_: str, error: Exception) -> None:
    """Store a trial that crashed, with its reason; called while the error is being handled."""
    with store.entry(hash_) as folder:
        (folder / "traceback.txt").write_text(traceback.format_exc())
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        store.commit(folder, hash_, "failed", reason, {})


def _run(config: TrialConfig, store: Store, data_dir: Path | None, on_round: OnRound) -> None:
    simulation = Simulation(config, data_dir)
    reset_peak_memory(simulation.device)
    checkpoints, saved = store.checkpoints(config.hash), time.monotonic()
    store.complaints += checkpoint.restore(simulation, checkpoints)
    while not simulation.done:
        on_round(simulation, simulation.step())
        if time.monotonic() - saved >= CHECKPOINT_SECONDS and not simulation.done:
            checkpoint.save(simulation, checkpoints)
            saved = time.monotonic()
    with store.entry(config.hash) as path:
        with TrialFolder(path, config) as folder:
            folder.open(simulation)
            summary = folder.finish(simulation, save_model=False)
        store.commit(path, config.hash, summary["status"], summary["reason"], summary)
