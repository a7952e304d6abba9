"""What runs on a Ray worker: one whole trial, into the store."""

import gc
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from ray import get_gpu_ids

from fedbench.base.errors import UserError
from fedbench.base.linux import return_memory
from fedbench.base.settings import merge
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.simulation import Callback, Record, Simulation
from fedbench.simulation.checkpoint import StopFile, Stopped
from fedbench.store.execute import execute, record_failure
from fedbench.store.leases import HeldElsewhereError
from fedbench.store.store import StoredTrial
from fedbench.store.trackers import tracked
from fedbench.store.trackers.guard import variables
from fedbench.tune.actor import Actor, report
from fedbench.tune.away import OtherVersionError, Place, settle
from fedbench.tune.freight import received, sent
from fedbench.tune.nodes import without
from fedbench.tune.options import RunOptions
from fedbench.tune.watch import Watched, worker_name

if TYPE_CHECKING:
    from ray import tune

REPORT_SECONDS = 1.0


def run_trial(params: dict[str, Any]) -> None:
    """Run the trial in `params` (see `payload`); every outcome but a dead process ends as a store entry."""
    params = params["trial"]
    reporter, place = Reporter(params["hash"]), Place.of(params)
    if place.away:  # the driver holds the lease meanwhile
        report({**reporter.last, "status": "away", "reason": ""})
    with Watched(RunName(**params["name"]), params["hash"]) as watched:
        ended = _outcome(params, place, reporter, watched)
        reason = f" ({ended['reason']})" if ended["reason"] else ""
        last = f", last round {100 * ended['last_accuracy']:.2f} %" if "last_accuracy" in ended else ""
        watched.log(f"{ended['status']}{reason}{last}")
    release_memory()
    report({**reporter.last, **ended, **place.freight(params["hash"], ended["status"])})


def _outcome(params: dict[str, Any], place: Place, reporter: "Reporter", watched: Watched) -> dict[str, Any]:
    """Run the trial; returns how it ended: its status, the reason, the last round's score."""
    store, stop = place.store, place.stop
    if stop.exists():
        return {"status": "stopped", "reason": ""}
    try:
        settle(params)
        config = TrialConfig(**merge(params["config"], {"run": {"threads": params["threads"]}}))
        if config.hash != params["hash"]:
            raise UserError("this worker has other code than the driver: install the same fedbench and plugins on both")
    except OtherVersionError as error:  # another node may be fit
        return {"status": "refused", "reason": str(error)}
    except UserError as error:  # the driver could import it, this worker cannot
        record_failure(store, params["hash"], error)
        return {"status": "failed", "reason": str(error)}
    warnings: list[str] = []
    asked = tracked(params["trackers"], config, store.out, warnings.append, watched.name)
    try:
        with variables(_environment(params)), asked as trackers, place.mirror(params, warnings.append) as mirror:
            complaints, stopping = Complaints(warnings), StopFile(stop, store.checkpoints(config.hash))
            callbacks = [watched, reporter, *trackers, complaints, stopping]
            data_dir = Path(params["data_dir"]) if params["data_dir"] else None
            device = partial(assigned_device, params["gpus"])
            stored = execute(config, store, data_dir, callbacks, device, mirror)
            for tracker in trackers if stored.status == "failed" else ():
                tracker.crashed(stored.reason or "")
    except Stopped as error:
        return {"status": "stopped", "reason": str(error)}
    except HeldElsewhereError as error:
        return {"status": "elsewhere", "reason": str(error)}
    except OSError as error:  # a full disk, say: no entry can be written, and trying at once would not help
        return {"status": "failed", "reason": str(error)}
    ended = {"status": stored.status, "reason": stored.reason or "", "warnings": warnings, **_scores(stored)}
    return ended if reporter.begun or stored.status == "failed" else {**ended, "found": True}


class FederatedRun(Actor):
    """A worker that runs one trial after the other. Ray's dashboard shows the class, its repr, and its log."""

    function = staticmethod(run_trial)

    def __repr__(self) -> str:
        return worker_name(self.config["trial"]["command"])


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


def release_memory() -> None:
    """Give back what a trial has left of memory in this process, the GPU's too: others share it."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return_memory()


class Reporter(Callback[Simulation, Record]):
    """Sends a round's scores to Tune, at most once a second. `begun`: whether the run has."""

    def __init__(self, hash_: str) -> None:
        self.begun = False
        self.last: dict[str, Any] = {"hash": hash_, "round": 0, "test_accuracy": float("nan")}
        self._sent = 0.0

    def start(self, run: Simulation) -> None:
        """It is not in the store yet."""
        self.begun = True

    def round(self, run: Simulation, seen: Record) -> None:
        """Take in one finished round."""
        self.last["round"] = seen.round
        if seen.test_accuracy is not None:
            self.last["test_accuracy"] = seen.test_accuracy
        if time.monotonic() - self._sent >= REPORT_SECONDS and not run.done:
            self._sent = time.monotonic()
            report({**self.last, "status": "running", "reason": ""})


class Complaints(Callback[Simulation, Record]):
    """Keeps what a run has to say about its engine, for the driver's terminal."""

    def __init__(self, heard: list[str]) -> None:
        self.heard = heard

    def end(self, run: Simulation) -> None:
        """What came up at any time."""
        if run.engine.complaint:
            self.heard.append(run.engine.complaint)


def payload(
    config: TrialConfig, name: RunName, options: RunOptions, gpus: float, stop: Path, home: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A trial as plain data for a worker; it ends after the round in which the file `stop` comes to be."""
    trial = {"hash": config.hash, "config": config.plain(), "name": asdict(name), "stop": str(stop)}
    return {**trial, **surroundings(options, gpus, home)}


def surroundings(options: RunOptions, gpus: float, home: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is the same for all trials of a command, as plain data for a worker; `home` is what `Home.about` tells."""
    return {
        "command": options.study,
        "folder": str(Path.cwd()),
        "out": str(options.out.resolve()),
        "data_dir": str(options.data_dir.resolve()) if options.data_dir else None,
        "modules": list(options.modules),
        "trackers": list(options.trackers),
        "environment": sent(dict(options.environment)) if options.environment else "",
        "threads": options.threads,
        "cpus": options.cpus_per_trial,
        "gpus": gpus,
        "resources": dict(options.resources),
        "checkpoints": options.checkpoints,
        "home": home,
    }


def _environment(params: Mapping[str, Any]) -> dict[str, str]:
    """The variables that were sent, if any were."""
    return dict(received(params["environment"])) if params["environment"] else {}


def resources(surroundings: dict[str, Any]) -> "tune.PlacementGroupFactory":
    """What each trial of a command takes of the cluster."""
    from ray import tune  # in the driver, where it is; a worker does without

    wanted = {"CPU": surroundings["cpus"], "GPU": surroundings["gpus"], **surroundings["resources"]}
    refused = (surroundings.get("home") or {}).get("refused", ())
    return tune.PlacementGroupFactory([wanted], **without(refused))


def _scores(stored: StoredTrial) -> dict[str, float]:
    """The last round's accuracy: how many rounds a final score covers is a study's to say, and a trial may have two."""
    last = stored.summary.get("last_accuracy")
    return {"last_accuracy": last} if last is not None and stored.status == "done" else {}
