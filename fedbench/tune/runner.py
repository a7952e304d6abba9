"""Running trials on Ray Tune: scheduling is Ray's, results and resuming are the store's."""

import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# First, since it sets Ray's environment before Ray is imported.
from fedbench.tune.clusters import gpu_share, on_ray  # isort: skip
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.trainable.function_trainable import FunctionTrainable

from fedbench.base.files import scratch
from fedbench.base.signals import heeding, interrupt
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.store.leases import Watch
from fedbench.store.store import Store
from fedbench.tune.home import Home
from fedbench.tune.light import light_baggage
from fedbench.tune.options import RunOptions, StudyListener
from fedbench.tune.pulse import Pulse
from fedbench.tune.shares import Shares
from fedbench.tune.trainable import FederatedRun, payload, resources

_Function: Any = FunctionTrainable
POLL_SECONDS = 1.0  # between two looks at trials that another command runs


def run_trials(
    trials: Mapping[str, TrialConfig], names: Mapping[str, RunName], options: RunOptions, listener: StudyListener
) -> None:
    """Run all trials, by their hash; returns when every one has ended, or its process has died too often.

    Trials whose process died are run again once the others have ended; so is, with twice the share of a GPU, one that
    ran out of its memory. Those that another command runs are left to it, and waited for. At Ctrl-C running trials end
    their round and write a checkpoint, then KeyboardInterrupt comes through; at the second one at once.
    """
    on_ray(options, lambda pulse: _run_all(trials, names, options, listener, pulse), listener.say)


def _run_all(
    trials: Mapping[str, TrialConfig],
    names: Mapping[str, RunName],
    options: RunOptions,
    listener: StudyListener,
    pulse: Pulse,
) -> None:
    """Run all trials on the cluster that there is now."""
    stop = scratch(options.out.resolve() / "checkpoints" / "stop")
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    shares = Shares(gpu_share(options, listener.say))
    for hash_ in list(listener.running):  # on a cluster that has died
        listener.stopped(hash_)
    listener.say("starting workers")
    others, tries = Others(Store(options.out), listener), options.max_failures + 1
    with Home(options, listener.say, idle=pulse.here) as home, asking_to_stop(stop, listener) as asked:
        home.asked = asked
        while tries and (left := [hash_ for hash_ in trials if hash_ not in listener.outcomes]):
            ready = others.leave(left)
            if not ready:
                time.sleep(POLL_SECONDS)
                continue
            about = home.about()
            payloads = [payload(trials[hash_], names[hash_], options, shares.of(hash_), stop, about) for hash_ in ready]
            heard = ProgressCallback(listener, asked, shares, names, home)
            _fit(payloads, options, [home, heard, pulse])
            lost = any(hash_ not in listener.outcomes and hash_ not in listener.elsewhere for hash_ in ready)
            unfit = home.late() if lost else []
            for line in unfit:
                listener.warn(line)
            tries = max(tries - (lost and not unfit), int(heard.again))


class Others:
    """Commands that run trials on the same folder."""

    def __init__(self, store: Store, listener: StudyListener) -> None:
        self.store, self.listener = store, listener
        self._watch = Watch()

    def leave(self, hashes: list[str]) -> list[str]:
        """Those of the trials that no other command runs now, or has just ended: the listener is told of these."""
        ready = []
        for hash_ in hashes:
            if holder := self._watch.holder(self.store.lease(hash_)):
                if hash_ not in self.listener.elsewhere:
                    self.listener.held(hash_, holder)
            elif hash_ in self.listener.elsewhere and (stored := self.store.get(hash_)) and stored.status != "failed":
                told = _told(stored.status, stored.reason, stored.summary)
                self.listener.ended(hash_, stored.status, f"{told} (run elsewhere)")
            else:
                ready.append(hash_)
        return ready


def _told(status: str, reason: str | None, scores: Mapping[str, Any]) -> str:
    """How a trial ended, in words."""
    last = scores.get("last_accuracy")
    return f"last round {100 * last:.2f} %" if status == "done" and last is not None else f"{status}: {reason}"


@contextmanager
def asking_to_stop(stop: Path, listener: StudyListener) -> Iterator[Callable[[], int]]:
    """The first Ctrl-C makes the file that trials look for, if any is running; the second one stops at once.

    Yields a function that tells the signal by which they were asked, 0 if they were not.
    """
    asked = heard = 0

    def answer(number: int) -> None:
        nonlocal asked, heard
        heard = number
        if asked or not listener.running:
            listener.say("stopping")
            interrupt(number)
        asked = number
        stop.parent.mkdir(parents=True, exist_ok=True)
        stop.touch()
        listener.say("stopping: running trials end their round and write a checkpoint; Ctrl-C again stops at once")

    try:
        with heeding(answer):
            yield lambda: asked
    except KeyboardInterrupt:  # Ray makes a plain one of any that comes up while it waits
        interrupt(heard or signal.SIGINT)
    finally:
        stop.unlink(missing_ok=True)


def _fit(payloads: list[dict[str, Any]], options: RunOptions, callbacks: list[tune.Callback]) -> None:
    tuner = tune.Tuner(
        Scheduled,
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
            callbacks=[*callbacks, JsonLoggerCallback()],
            verbose=0,
        ),
    )
    with light_baggage():
        tuner.fit()


class Scheduled(_Function):  # type: ignore[misc]
    """A trial as Tune knows it; workers run it without Tune."""

    on_workers = FederatedRun

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """What a trial takes of the cluster; `tune.with_resources` would hide the class behind one of its own."""
        return resources(config["trial"])


class ProgressCallback(tune.Callback):
    """Tells the listener what Tune hears from the trials. `again`: whether one is to be run with more memory."""

    def __init__(
        self,
        listener: StudyListener,
        asked: Callable[[], int],
        shares: Shares,
        names: Mapping[str, RunName],
        home: Home,
    ) -> None:
        self.listener, self.asked, self.shares, self.names, self.home = listener, asked, shares, names, home
        self.again = False

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks into the (disposable) experiment folder; the listener stays here."""
        return {}

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """A report of a trial: a round, or its end."""
        result = self.home.taken_in(result)
        if result.get("status") == "running":
            self.listener.update(result["hash"], result["round"], result["test_accuracy"])
        elif result.get("status") == "stopped":
            self.listener.stopped(result["hash"])
            if (number := self.asked()) and not self.listener.running:
                interrupt(number)
        elif result.get("status") in ("lost", "refused"):  # run again: on the way home, or on a node that is not fit
            self.listener.stopped(result["hash"])
            if result["status"] == "refused":
                self.listener.warn(f"{result['reason']}; it gets no trials")
        elif result.get("status") == "elsewhere":
            self.listener.held(result["hash"], result["reason"])
        elif result.get("status") == "failed" and (share := self.shares.grow(result["hash"], result["reason"])):
            self.again = True
            self.listener.stopped(result["hash"])
            name = self.names[result["hash"]]
            self.listener.warn(f"{name}: out of GPU memory; it is tried again with {share:g} of a GPU")
        elif "status" in result:
            detail = _told(result["status"], result["reason"], result)
            detail += " (found in the store)" if result.get("found") else ""  # another command was quicker
            self.listener.ended(result["hash"], result["status"], detail)
            for text in result.get("warnings", ()):
                self.listener.warn(text)


def _trial_name(trial: Any) -> str:
    config = TrialConfig(**trial.config["trial"]["config"])
    return f"{config.method.name}-{config.model}-seed{config.seed}-{config.hash[:12]}"
