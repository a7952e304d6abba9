"""Run trials on Ray Tune: Ray schedules them, the store keeps results and knows where to go on."""

import logging
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search import Searcher

from fedbench.base.signals import interrupt, stop_signals
from fedbench.base.versions import versions
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.cost.shares import Packing, Shares
from fedbench.store.leases import Watch
from fedbench.store.store import Store
from fedbench.tune.home import home_of
from fedbench.tune.local import RayDied
from fedbench.tune.nodes import Nodes, alive, ask, gpu_share, packing_of
from fedbench.tune.options import UNCAPTURED, RunOptions, Score, StudyListener
from fedbench.tune.worker import FederatedRun, tidy_node

POLL_SECONDS = 1.0  # between two looks at trials that another command runs
ASK_SECONDS = 5.0  # between two questions to the control store
PING_SECONDS = 15.0  # for a Ray that is alive to answer
TIDY_SECONDS = 20.0


def run_trials(
    trials: Mapping[str, TrialConfig],
    names: Mapping[str, RunName],
    options: RunOptions,
    listener: StudyListener,
    nodes: Nodes,
) -> None:
    """Run all trials, by their hash; return when every one has ended, or its process has died too often.

    Trials whose process died are run again once the others have ended; so is, with twice the share of a GPU, one that
    ran out of its memory, and, without captured steps, one whose capture failed. Trials that another command runs are
    left to it, and waited for. At the first Ctrl-C running
    trials end their round and write a checkpoint, then KeyboardInterrupt is raised; at the second one, at once.
    """
    if not nodes.started_here and len(alive()) > 1 and not options.checkpoints:
        listener.say("checkpoints stay on the nodes that run the trials (--checkpoints keeps them elsewhere)")
    shares = Shares(gpu_share(options, listener.say))
    listener.say("starting workers")
    store, tries = Store(options.out), options.max_failures + 1
    others = Others(store, listener)
    payloads = {hash_: {"config": config.plain(), "name": asdict(names[hash_])} for hash_, config in trials.items()}
    with (
        home_of(options.out, common(options, store, nodes), payloads) as (home, handle),
        Stopping(listener, handle) as stop,
    ):
        while (
            tries and not listener.hopeless and (left := [hash_ for hash_ in trials if hash_ not in listener.outcomes])
        ):
            ready = others.leave(left)
            if not ready:
                time.sleep(POLL_SECONDS)
                continue
            share = min(map(shares.of, ready))
            chosen = [hash_ for hash_ in ready if shares.of(hash_) == share]
            packing = packing_of(len(chosen), options, share, nodes)
            queue = Queue([_tune_config(trials[hash_]) for hash_ in chosen], packing, stop)
            heard = ProgressCallback(listener, stop, shares, names)
            fit(FederatedRun, queue, len(chosen), options, packing.at_once, home, nodes, [heard, stop], stop)
            stop.end()
            lost = any(hash_ not in listener.outcomes and hash_ not in listener.elsewhere for hash_ in chosen)
            if lost:
                check_alive(handle)
            unfit = nodes.check_new() if lost else []
            for line in unfit:
                listener.warn(line)
            tries = max(tries - (lost and not unfit and not heard.again), int(heard.again))
        if not nodes.started_here:
            ended = {hash_: str(store.status(hash_)) for hash_ in trials}
            ask(
                alive().keys() - {ray.get_runtime_context().get_node_id()},
                tidy_node,
                store.name(),
                ended,
                seconds=TIDY_SECONDS,
            )


def common(options: RunOptions, store: Store, nodes: Nodes) -> dict[str, Any]:
    """Return what all trials of a command have in common, for `Home` to tell workers; some of it is secret."""
    return {
        "out": str(options.out.resolve()),
        "store": "" if nodes.started_here else store.name(),  # nodes elsewhere know the folder by it
        "folder": str(Path.cwd()),
        "versions": dict(versions()),
        "data_dir": str(options.data_dir.resolve()) if options.data_dir else None,
        "modules": list(options.modules),
        "trackers": list(options.trackers),
        "environment": dict(options.environment),
        "threads": options.threads,
        "gpu_context": options.gpu_context,
        "checkpoints": options.checkpoints,
        "save_model": options.save_model,
    }


def fit(
    trainable: type[tune.Trainable],
    searcher: Searcher,
    count: int,
    options: RunOptions,
    at_once: int,
    home: str,
    nodes: Nodes,
    callbacks: list[tune.Callback],
    stopper: tune.Stopper,
) -> None:
    """Let Tune run what a searcher suggests, at most `count` trials, and ask it for at most `at_once` at a time."""
    control_store = ControlStore()
    tuner = tune.Tuner(
        trainable,
        param_space={
            "home": home,
            "command": options.study,
            "refused": sorted(nodes.refused),
        },
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=count,
            reuse_actors=True,
            max_concurrent_trials=at_once,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"{options.study}-{time.strftime('%Y%m%d-%H%M%S')}",
            storage_path=str((options.out / "ray").resolve()),
            failure_config=tune.FailureConfig(max_failures=0),  # the caller runs again what was lost
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            callbacks=[*callbacks, control_store, JsonLoggerCallback()],  # the last one writes down what trials report
            stop=stopper,
            verbose=0,
        ),
    )
    with _unchanged():
        try:
            tuner.fit()
        except EOFError:
            # All trials have ended, and Tune reads the errors that it wrote into its own folder; a full disk may have
            # cut such a file off. Nothing is lost by that: the store knows which trials have a result.
            pass
        except Exception as error:  # whatever Tune meets as it ends its workers
            if control_store.died:
                raise RayDied("Ray has died") from error
            raise


def check_alive(home: Any) -> None:
    """Let `Home` give back the leases of trials whose process has died; raise RayDied if Ray does not answer."""
    try:
        ray.util.list_named_actors()  # asks the control store
        ray.get(home.release_all.remote(), timeout=PING_SECONDS)
    except Exception as error:
        raise RayDied("Ray has died") from error


@contextmanager
def _unchanged() -> Iterator[None]:
    """Let Tune be silent, and restore the handler of SIGUSR1, which it replaces."""
    logger = logging.getLogger("ray.tune")
    level, handler = logger.level, signal.getsignal(signal.SIGUSR1)
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, signal.SIG_DFL if handler is None else handler)


def _tune_config(config: TrialConfig) -> dict[str, str]:
    """Return what Tune knows of a trial; a worker asks `Home` for the rest."""
    label = f"{config.method.name}-{config.model}-seed{config.seed}-{config.hash[:12]}"
    return {"hash": config.hash, "label": label}


def _share(trial: Any) -> float:
    """Return the share of a GPU that a trial of Tune has."""
    return float(trial.config["resources"].get("GPU", 0.0))


def _trial_name(trial: Any) -> str:
    return str(trial.config["label"])


class Queue(Searcher):
    """Hands out configs in their order, when Tune asks for the next one: no list of all trials is ever copied."""

    def __init__(self, configs: Iterable[dict[str, Any]], packing: Packing, stop: "Stopping") -> None:
        super().__init__(metric="round", mode="max")
        self._configs, self._packing, self._stop = iter(configs), packing, stop

    def suggest(self, trial_id: str) -> Any:
        """Return the next config, or that there is none."""
        following = None if self._stop.asked or self._stop.listener.hopeless else next(self._configs, None)
        return self.FINISHED if following is None else {**following, "resources": self._packing.take(trial_id)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Let others have what the trial had of the cluster; a callback follows what becomes of trials."""
        self._packing.ended(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: the store knows what is left."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its searcher into the folder of the experiment."""
        return {}


class Stopping(tune.Callback, tune.Stopper):
    """Stops a study in two steps, for the time of a `with` block.

    The first signal asks running trials to stop after their round; without any it stops at once, as does the second
    signal. `asked` is the number of the first signal, 0 before there was one.
    """

    def __init__(self, listener: StudyListener, home: Any) -> None:
        self.listener, self.home, self.asked = listener, home, 0
        self._told = 0.0

    def __enter__(self) -> "Stopping":
        self._signals = stop_signals(self._answer)
        self._signals.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        self._signals.__exit__(*error)
        if error[0] is KeyboardInterrupt:  # Ray makes a plain one of any that is raised while it waits
            interrupt(self.asked or signal.SIGINT)
        return None

    def _answer(self, number: int) -> None:
        if self.asked or not self.listener.running:
            self.asked = self.asked or number
            self.listener.say("stopping")
            interrupt(number)
        self.asked = number
        self.listener.say("stopping: running trials end their round and write a checkpoint; Ctrl-C again stops at once")

    def end(self) -> None:
        """Raise the exception of the signal if there was one."""
        if self.asked:
            interrupt(self.asked)

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Tell `Home`, again every second, since its process may have been started anew."""
        if self.asked and time.monotonic() - self._told > 1.0:
            self._told = time.monotonic()
            self.home.stop.remote()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Stop no single trial."""
        return False

    def stop_all(self) -> bool:
        """Return whether Tune may end all workers: going on is useless, or it was asked to stop and no round runs."""
        return bool(self.listener.hopeless) or (bool(self.asked) and not self.listener.running)

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its callbacks into the folder of the experiment."""
        return {}


class ControlStore(tune.Callback):
    """Ends Tune once Ray's control store does not answer any more, or knows that the driver's node has died.

    Tune would wait forever for a place for its trials. `died`: whether that is so.
    """

    def __init__(self) -> None:
        self.died, self._asked = False, time.monotonic()
        self._node = ray.get_runtime_context().get_node_id()

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Ask it, now and then; raise RayDied if Ray has died."""
        if time.monotonic() - self._asked < ASK_SECONDS:
            return
        self._asked = time.monotonic()
        try:
            ray.util.list_named_actors()
            self.died = self._node not in alive()
        except ray.exceptions.GetTimeoutError:
            self.died = True
        if self.died:
            raise RayDied("Ray has died")

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its callbacks into the folder of the experiment."""
        return {}


class Others:
    """Commands that run trials on the same results folder."""

    def __init__(self, store: Store, listener: StudyListener) -> None:
        self.store, self.listener = store, listener
        self._watch = Watch()

    def leave(self, hashes: list[str]) -> list[str]:
        """Return the trials that no other command runs now; tell the listener of those that one runs or has ended."""
        ready = []
        for hash_ in hashes:
            if holder := self._watch.holder(self.store.lease(hash_)):
                if hash_ not in self.listener.elsewhere:
                    self.listener.held(hash_, holder)
            elif hash_ in self.listener.elsewhere and (stored := self.store.get(hash_)) and stored.status != "failed":
                detail = _detail(stored.status, stored.reason, stored.summary)
                self.listener.ended(hash_, stored.status, f"{detail} (run elsewhere)")
            else:
                ready.append(hash_)
        return ready


def _detail(status: str, reason: str | None, scores: Mapping[str, Any]) -> str:
    """Return how a trial ended, in words."""
    last = scores.get("last_accuracy")
    return f"last round {100 * last:.2f} %" if status == "done" and last is not None else f"{status}: {reason}"


class ProgressCallback(tune.Callback):
    """Tells the listener what trials report to Tune. `again`: whether one is to be run in another way than before."""

    def __init__(self, listener: StudyListener, stop: Stopping, shares: Shares, names: Mapping[str, RunName]) -> None:
        self.listener, self.stop, self.shares, self.names = listener, stop, shares, names
        self.again = False

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its callbacks into the folder of the experiment."""
        return {}

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Tell the listener that the process of a trial has died."""
        self.listener.stopped(trial.config["hash"])

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """Tell the listener of a round, or of the end of a trial."""
        hash_, status = result["hash"], result["status"]
        for text in result.get("warnings", ()):
            self.listener.warn(text)
        if status == "running":
            scored = result.get("scored_round")
            score = Score(result["test_accuracy"], scored) if scored else None
            self.listener.update(hash_, result["round"], score)
        elif status == "stopped":
            self.listener.stopped(hash_)
        elif status == "refused":  # it is run again on a node that has the right versions
            self.listener.stopped(hash_)
            self.listener.warn(f"{result['reason']}; it gets no trials")
        elif status == UNCAPTURED:
            self.again = True
            self.listener.stopped(hash_)
            self.listener.warn(f"{self.names[hash_]}: {result['reason']}, in a new process")
        elif status == "elsewhere":
            self.listener.held(hash_, result["reason"])
        elif status == "failed" and (share := self.shares.grow(hash_, result["reason"], _share(trial))):
            self.again = True
            self.listener.stopped(hash_)
            self.listener.warn(f"{self.names[hash_]}: out of GPU memory; it is tried again with {share:g} of a GPU")
        else:
            detail = _detail(status, result["reason"], result)
            detail += " (found in the store)" if result.get("found") else ""  # another command was quicker
            self.listener.ended(hash_, status, detail)
