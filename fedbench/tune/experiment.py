"""One run of Ray Tune: the next trial, what becomes of reports, and when to stop, as a study or a search decides."""

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search import Searcher

from fedbench.base.signals import interrupt, stop_signals
from fedbench.base.versions import versions
from fedbench.console.progress import LiveLine
from fedbench.cost.shares import Packing
from fedbench.store.store import Store
from fedbench.tune.cluster import RayDied
from fedbench.tune.nodes import Nodes, alive
from fedbench.tune.options import RunOptions

CHECK_SECONDS = 2.0  # between two questions whether Ray is alive
PING_SECONDS = 15.0  # for a Ray that is alive to answer


def common(options: RunOptions, nodes: Nodes) -> dict[str, Any]:
    """Return what all trials of a command have in common, for `Home` to tell workers; some of it is secret."""
    return {
        "out": str(options.out.resolve()),
        "store": "" if nodes.started_here else Store(options.out).name(),  # nodes elsewhere know the folder by it
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


class Experiment(Searcher, tune.Stopper):
    """Hands trials to Tune one at a time, so that no list of them is copied, and hears what they report.

    Stops in two steps: after the first signal Tune ends its workers once `in_a_round` is false; the second signal
    raises KeyboardInterrupt at once, and so does the first one if `at_once` says so. `asked` is the number of the first
    signal, 0 before there was one.

    home: the handle of `Home`; packing: what trials take of the cluster.
    """

    notice = "stopping"

    def __init__(self, listener: LiveLine, home: Any, packing: Packing, mode: str = "max") -> None:
        super().__init__(metric="score", mode=mode)
        self.listener, self.home, self.packing, self.asked = listener, home, packing, 0
        self._checked, self._node, self._died = 0.0, ray.get_runtime_context().get_node_id(), False

    def in_a_round(self) -> bool:
        """Return whether a trial that was asked to stop would lose what it does now."""
        return False

    def at_once(self) -> bool:
        """Return whether the first signal stops at once."""
        return False

    def fit(self, trainable: type[tune.Trainable], count: int, options: RunOptions, home: str, nodes: Nodes) -> None:
        """Let Tune run at most `count` trials; raise KeyboardInterrupt after a signal, RayDied if Ray has died.

        home: the name of `Home`.
        """
        space = {"home": home, "command": options.study, "refused": sorted(nodes.refused)}
        tuner = tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(
                search_alg=self,
                num_samples=count,
                reuse_actors=True,
                max_concurrent_trials=self.packing.at_once,
                trial_name_creator=_trial_name,
                trial_dirname_creator=_trial_name,
            ),
            run_config=tune.RunConfig(
                name=f"{options.study}-{time.strftime('%Y%m%d-%H%M%S')}",
                storage_path=str((options.out / "ray").resolve()),
                failure_config=tune.FailureConfig(max_failures=0),  # the caller runs again what was lost
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                callbacks=[JsonLoggerCallback()],  # writes down what trials report
                stop=self,
                verbose=0,
            ),
        )
        try:
            with stop_signals(self._answer), _unchanged():
                tuner.fit()
        except EOFError:
            # All trials have ended, and Tune reads the errors that it wrote into its own folder; a full disk may have
            # cut such a file off. Nothing is lost by that: the store knows which trials have a result.
            pass
        except KeyboardInterrupt:  # Ray makes a plain one of any that is raised while it waits
            interrupt(self.asked or signal.SIGINT)
        except Exception as error:  # whatever Tune meets as it ends its workers
            if self._died:
                raise RayDied("Ray has died") from error
            raise
        if self.asked:
            interrupt(self.asked)

    def _answer(self, number: int) -> None:
        now, self.asked = bool(self.asked) or self.at_once(), self.asked or number
        self._checked = 0.0
        self.listener.say("stopping" if now else f"{self.notice}; Ctrl-C again stops at once")
        if now:
            interrupt(number)

    def stop_all(self) -> bool:
        """Return whether Tune is to end all workers. Tune asks in every step of its loop.

        Raise RayDied if the control store does not answer, or says that this node has died: Tune would wait forever.
        """
        if time.monotonic() - self._checked >= CHECK_SECONDS:
            self._checked = time.monotonic()
            try:
                ray.util.list_named_actors()
                self._died = self._node not in alive()
            except ray.exceptions.GetTimeoutError:
                self._died = True
            if self._died:
                raise RayDied("Ray has died")
            if self.asked:  # told again and again, since the process of `Home` may have been started anew
                self.home.stop.remote()
        return bool(self.asked) and not self.in_a_round()

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: the store, or Optuna's storage, knows what is left."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its searcher into the folder of the experiment."""
        return {}


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


def _trial_name(trial: Any) -> str:
    return str(trial.config["label"])
