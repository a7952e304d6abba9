"""Running trials on Ray Tune: scheduling is Ray's, results and resuming are the store's."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

# First, since it sets Ray's environment before Ray is imported.
from fedbench.tune.clusters import cluster, gpu_share  # isort: skip
from ray import tune
from ray.tune.logger import JsonLoggerCallback

from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.tune.options import RunOptions, StudyListener
from fedbench.tune.trainable import FederatedRun, payload


def run_trials(
    trials: Mapping[str, TrialConfig], names: Mapping[str, RunName], options: RunOptions, listener: StudyListener
) -> None:
    """Run all trials, by their hash; returns when every one has ended, or its process has died too often.

    Trials whose process died are run again once the others have ended. At Ctrl-C running trials end their round and
    write a checkpoint, then KeyboardInterrupt comes through; at the second one at once.
    """
    stop = options.out.resolve() / "checkpoints" / f".stop-{os.getpid()}-{time.time_ns()}"
    with cluster(options, listener.say):
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        gpus = gpu_share(options)
        listener.say("starting workers")
        for _ in range(options.max_failures + 1):
            left = {hash_: config for hash_, config in trials.items() if hash_ not in listener.outcomes}
            if not left:
                return
            with asking_to_stop(stop, listener) as asked:
                payloads = [payload(config, names[hash_], options, gpus, stop) for hash_, config in left.items()]
                _fit(payloads, options, listener, asked)


@contextmanager
def asking_to_stop(stop: Path, listener: StudyListener) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C makes the file that trials look for, if any is running; the second one stops at once.

    Yields a function that tells whether they were asked.
    """
    if threading.current_thread() is not threading.main_thread():  # no signals there
        yield lambda: False
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.exists() or not listener.running:
            listener.say("stopping")
            raise KeyboardInterrupt
        stop.parent.mkdir(parents=True, exist_ok=True)
        stop.touch()
        listener.say("stopping: running trials end their round and write a checkpoint; Ctrl-C again stops at once")

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield stop.exists
    finally:
        signal.signal(signal.SIGINT, previous)
        stop.unlink(missing_ok=True)


def _fit(
    payloads: list[dict[str, Any]],
    options: RunOptions,
    listener: StudyListener,
    asked: Callable[[], bool],
) -> None:
    tuner = tune.Tuner(
        FederatedRun,
        param_space={"trial": tune.grid_search(payloads)},
        tune_config=tune.TuneConfig(
            reuse_actors=True,
            max_concurrent_trials=options.max_concurrent,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"{options.study}-{time.strftime('%Y%m%d-%H%M%S')}",
            storage_path=str((options.out / "ray").resolve()),
            failure_config=tune.FailureConfig(max_failures=0),  # see run_trials
            callbacks=[ProgressCallback(listener, asked), JsonLoggerCallback()],
            verbose=0,
        ),
    )
    tuner.fit()


class ProgressCallback(tune.Callback):
    """Tells the listener what Tune hears from the trials."""

    def __init__(self, listener: StudyListener, asked: Callable[[], bool]) -> None:
        self.listener, self.asked = listener, asked

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks into the (disposable) experiment folder; the listener stays here."""
        return {}

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """A report of a trial: a round, or its end."""
        if result.get("status") == "running":
            self.listener.update(result["hash"], result["round"], result["test_accuracy"])
        elif result.get("status") == "stopped":
            self.listener.stopped(result["hash"])
            if self.asked() and not self.listener.running:
                raise KeyboardInterrupt
        elif "status" in result:
            last = result.get("last_accuracy")
            detail = f"last round {100 * last:.2f} %" if last is not None else f"{result['status']}: {result['reason']}"
            self.listener.ended(result["hash"], result["status"], detail)
            for text in result.get("warnings", ()):
                self.listener.warn(text)


def _trial_name(trial: Any) -> str:
    config = TrialConfig(**trial.config["trial"]["config"])
    return f"{config.method.name}-{config.model}-seed{config.seed}-{config.hash[:12]}"
