"""Run the trials of a study on Ray Tune: Ray schedules them, the store keeps results and knows where to go on."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import ray

from fedbench.config import TrialConfig
from fedbench.config.naming import SHORT_HASH, RunName
from fedbench.console.progress import StudyProgress
from fedbench.cost.shares import Packing, Shares
from fedbench.store.away import tidy_node
from fedbench.store.leases import Watch
from fedbench.store.mark import UNCAPTURED
from fedbench.store.store import Store
from fedbench.tune.experiment import Experiment, check_alive, common
from fedbench.tune.home import home_of
from fedbench.tune.nodes import Nodes, alive, ask, gpu_share, packing_of
from fedbench.tune.options import RunOptions
from fedbench.tune.worker import FederatedRun

POLL_SECONDS = 1.0  # between two looks at trials that another command runs
TIDY_SECONDS = 20.0


def run_trials(
    trials: Mapping[str, TrialConfig],
    names: Mapping[str, RunName],
    options: RunOptions,
    listener: StudyProgress,
    nodes: Nodes,
) -> None:
    """Run all trials, by their hash; return when every one has ended, or its process has died too often.

    Trials whose process died are run again once the others have ended; so is, with twice the share of a GPU, one that
    ran out of its memory, and, without captured steps, one whose capture failed. Trials that another command runs are
    left to it, and waited for. At the first Ctrl-C running trials end their round and write a checkpoint, then
    KeyboardInterrupt is raised; at the second one, at once.
    """
    if not nodes.started_here and len(alive()) > 1 and not options.checkpoints:
        listener.say("checkpoints stay on the nodes that run the trials (--checkpoints keeps them elsewhere)")
    shares = Shares(gpu_share(options, listener.say))
    listener.say("starting workers")
    store, watch, tries = Store(options.out), Watch(), options.max_failures + 1
    payloads = {hash_: {"config": config.plain(), "name": asdict(names[hash_])} for hash_, config in trials.items()}
    with home_of(options.out, common(options, nodes), payloads) as (home, handle):
        while tries and (left := [hash_ for hash_ in trials if hash_ not in listener.outcomes]):
            if listener.hopeless:
                break
            ready = [hash_ for hash_ in left if not run_elsewhere(hash_, store, watch, listener)]
            if not ready:
                time.sleep(POLL_SECONDS)
                continue
            share = min(map(shares.of, ready))
            chosen = {hash_: trials[hash_] for hash_ in ready if shares.of(hash_) == share}
            packing = packing_of(len(chosen), options, share, nodes)
            experiment = StudyExperiment(chosen, names, shares, listener, handle, packing)
            experiment.fit(FederatedRun, len(chosen), options, home, nodes)
            lost = any(hash_ not in listener.outcomes and hash_ not in listener.elsewhere for hash_ in chosen)
            if lost:
                check_alive(handle)
            unfit = nodes.check_new() if lost else []
            for line in unfit:
                listener.warn(line)
            tries = max(tries - (lost and not unfit and not experiment.again), int(experiment.again))
        if not nodes.started_here:
            ended = {hash_: str(store.status(hash_)) for hash_ in trials}
            others = alive().keys() - {ray.get_runtime_context().get_node_id()}
            ask(others, tidy_node, store.name(), ended, seconds=TIDY_SECONDS)


def run_elsewhere(hash_: str, store: Store, watch: Watch, listener: StudyProgress) -> bool:
    """Return whether another command runs a trial, or has ended it; the listener is told of either."""
    if holder := watch.holder(store.lease(hash_)):
        if hash_ not in listener.elsewhere:
            listener.held(hash_, holder)
        return True
    stored = store.get(hash_) if hash_ in listener.elsewhere else None
    if stored is None or stored.status == "failed":
        return False
    report = {**stored.summary, "status": stored.status, "reason": stored.reason}
    listener.hear(hash_, report, "run elsewhere")
    return True


class StudyExperiment(Experiment):
    """Hands out the trials of a study in their order, and tells the listener what they report.

    `again`: whether a trial is to be run in another way than before.
    """

    notice = "stopping: running trials end their round and write a checkpoint"
    listener: StudyProgress

    def __init__(
        self,
        trials: Mapping[str, TrialConfig],
        names: Mapping[str, RunName],
        shares: Shares,
        listener: StudyProgress,
        home: Any,
        packing: Packing,
    ) -> None:
        super().__init__(listener, home, packing)
        self.names, self.shares, self.again = names, shares, False
        self._next = iter(trials.items())
        self._running: dict[str, tuple[str, float]] = {}  # by Tune's name: the hash, and the share of a GPU

    def in_a_round(self) -> bool:
        """Return whether some trial has run a round, and has not ended."""
        return bool(self.listener.running)

    def at_once(self) -> bool:
        """Return whether there is nothing to wait for."""
        return not self.listener.running

    def stop_all(self) -> bool:
        """Return whether Tune is to end all workers, also because going on is useless."""
        return super().stop_all() or bool(self.listener.hopeless)

    def suggest(self, trial_id: str) -> Any:
        """Return what Tune knows of the next trial, or that there is none; a worker asks `Home` for the rest."""
        hash_, config = (None, None) if self.asked or self.listener.hopeless else next(self._next, (None, None))
        if hash_ is None or config is None:
            return self.FINISHED
        resources = self.packing.take(trial_id)
        self._running[trial_id] = hash_, resources.get("GPU", 0.0)
        label = f"{config.method.name}-{config.model}-seed{config.seed}-{hash_[:SHORT_HASH]}"
        return {"hash": hash_, "label": label, "resources": resources}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Let others have what the trial had of the cluster. An error means that its process has died."""
        self.packing.ended(trial_id)
        hash_, _ = self._running.pop(trial_id)
        if error:
            self.listener.stopped(hash_)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Tell the listener what a trial reports; stop no single trial."""
        hash_, share = self._running[trial_id]
        status, reason = result["status"], result["reason"]
        for text in result.get("warnings", ()):
            self.listener.warn(text)
        if status == "refused":  # it is run again on a node that has the right versions
            self._put_back(hash_, f"{reason}; it gets no trials")
        elif status == UNCAPTURED:
            self.again = True
            self._put_back(hash_, f"{self.names[hash_]}: {reason}, in a new process")
        elif status == "failed" and (more := self.shares.grow(hash_, reason, share)):
            self.again = True
            self._put_back(hash_, f"{self.names[hash_]}: out of GPU memory; it is tried again with {more:g} of a GPU")
        else:  # what is found in the store was stored by another command that was quicker
            self.listener.hear(hash_, result, "found in the store" if result.get("found") else "")
        return False

    def _put_back(self, hash_: str, warning: str) -> None:
        self.listener.stopped(hash_)
        self.listener.warn(warning)
