"""What runs on a Ray worker: one whole trial, into the store."""

import time
from pathlib import Path
from typing import Any

import torch
from ray import get_gpu_ids, tune
from ray.util.metrics import Gauge

from fedbench.base.errors import UserError
from fedbench.base.plugins import import_modules
from fedbench.base.settings import merge
from fedbench.config import TrialConfig
from fedbench.simulation import Callback, Record, Simulation
from fedbench.simulation.checkpoint import StopFile, Stopped
from fedbench.store.execute import execute, record_failure
from fedbench.store.store import Store, StoredTrial
from fedbench.store.trackers import trackers_of
from fedbench.tune.options import RunOptions

REPORT_SECONDS = 1.0


def run_trial(params: dict[str, Any]) -> None:
    """Run the trial in `params` (see `payload`); every outcome but a dead process ends as a store entry."""
    params = params["trial"]
    store, reporter, stop = Store(Path(params["out"])), Reporter(params["hash"]), Path(params["stop"])
    if stop.exists():
        tune.report({**reporter.last, "status": "stopped", "reason": ""})
        return
    data_dir = Path(params["data_dir"]) if params["data_dir"] else None
    try:
        import_modules(params["modules"], params["folder"])
        config = TrialConfig(**merge(params["config"], {"run": {"threads": params["threads"]}}))
        if config.hash != params["hash"]:
            raise UserError("this worker has other code than the driver: install the same fedbench and plugins on both")
    except UserError as error:  # the driver could import it, this worker cannot
        record_failure(store, params["hash"], error)
        tune.report({**reporter.last, "status": "failed", "reason": str(error)})
        return
    try:
        warnings: list[str] = []
        callbacks = [reporter, *trackers_of(params["trackers"], config, store.out, warnings.append)]
        callbacks.append(StopFile(stop, store.checkpoints(config.hash)))
        stored = execute(config, store, data_dir, callbacks, device=lambda: assigned_device(params["gpus"]))
    except Stopped as error:
        tune.report({**reporter.last, "status": "stopped", "reason": str(error)})
        return
    except OSError as error:  # a full disk, say: no entry can be written, and trying at once would not help
        tune.report({**reporter.last, "status": "failed", "reason": str(error)})
        return
    ended = {"status": stored.status, "reason": stored.reason or "", "warnings": warnings}
    tune.report({**reporter.last, **ended, **_scores(stored)})


def assigned_device(share: float) -> str:
    """The device that Ray gave this trial, its memory capped to the share; a GPU that torch cannot use is an error."""
    if not get_gpu_ids():
        return "cpu"
    if not torch.cuda.is_available():
        raise RuntimeError(
            "Ray assigned a GPU that torch cannot use; install a CUDA build of torch or --gpus-per-trial 0"
        )
    if share < 1:
        torch.cuda.set_per_process_memory_fraction(share, 0)
    return "cuda:0"  # Ray shows the process only the GPUs that it may use


class Reporter(Callback[Simulation, Record]):
    """Sends a round's scores to Tune and the dashboard, at most once a second."""

    def __init__(self, hash_: str) -> None:
        self.last: dict[str, Any] = {"hash": hash_, "round": 0, "test_accuracy": float("nan")}
        self._sent = 0.0
        tags = {"trial": hash_[:12]}
        self._gauges = {
            name: Gauge(f"fedbench_{name}", description=f"{name} of a trial", tag_keys=("trial",))
            for name in ("round", "test_accuracy")
        }
        for gauge in self._gauges.values():
            gauge.set_default_tags(tags)

    def round(self, run: Simulation, seen: Record) -> None:
        """Take in one finished round."""
        self.last["round"] = seen.round
        if seen.test_accuracy is not None:
            self.last["test_accuracy"] = seen.test_accuracy
        if time.monotonic() - self._sent >= REPORT_SECONDS and not run.done:
            self._sent = time.monotonic()
            for name, gauge in self._gauges.items():
                gauge.set(self.last[name])
            tune.report({**self.last, "status": "running", "reason": ""})


def payload(config: TrialConfig, options: RunOptions, gpus: float, stop: Path) -> dict[str, Any]:
    """A trial as plain data for a worker; it ends after the round in which the file `stop` comes to be."""
    return {"hash": config.hash, "config": config.plain(), "stop": str(stop), **surroundings(options, gpus)}


def surroundings(options: RunOptions, gpus: float) -> dict[str, Any]:
    """What is the same for all trials of a command, as plain data for a worker."""
    return {
        "folder": str(Path.cwd()),
        "out": str(options.out.resolve()),
        "data_dir": str(options.data_dir.resolve()) if options.data_dir else None,
        "modules": list(options.modules),
        "trackers": list(options.trackers),
        "threads": options.threads,
        "gpus": gpus,
    }


def _scores(stored: StoredTrial) -> dict[str, float]:
    final = stored.summary.get("final_accuracy")
    return {"final_accuracy": final} if final is not None else {}
