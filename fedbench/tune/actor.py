"""A worker for Tune that does not import Tune, which takes a second: what its controller asks of one, and no more.

In the driver, where Tune is, a trainable names such a class as `on_workers` (`light`).
"""

import os
import platform
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import ray

Metrics = dict[str, Any]

END_SECONDS = 30.0  # for a function that has told its last to return, on a machine that is busy


class Reports:
    """What a function tells Tune from its thread: one report at a time, the next when Tune has asked for it."""

    def __init__(self, function: Callable[[Metrics], None], config: Metrics) -> None:
        self._told: queue.Queue[Metrics | BaseException] = queue.Queue()
        self._asked = threading.Semaphore(0)
        self._work = partial(function, config)
        self.ended = threading.Event()

    def run(self) -> None:
        """Run the function, from the first wish for a report on."""
        self._asked.acquire()
        try:
            self._work()
        except BaseException as error:
            self._told.put(error)
        else:
            self._told.put({"__duplicate__": True})  # so Tune is told of the end: its last report was the last
        self.ended.set()

    def tell(self, metrics: Metrics) -> None:
        """Report, and wait until there is a wish for more."""
        self._told.put(metrics)
        self._asked.acquire()

    def next(self) -> Metrics:
        """The next report; the function starts with the first."""
        self._asked.release()
        told = self._told.get()
        if isinstance(told, BaseException):
            raise told
        return told


class Actor:
    """Runs a function for one config after the other, in a thread; what it reports is what a step returns.

    The thread is the same for all: glibc gives each one memory of its own, and keeps much of it when it ends.
    """

    function: ClassVar[Any]  # of a config
    _now: ClassVar[Reports]

    def __init__(self, config: Metrics, storage: None = None) -> None:
        node: Any = ray._private.worker._global_node
        scratch = Path(node.get_session_dir_path(), "artifacts", str(os.getpid()))
        scratch.mkdir(parents=True, exist_ok=True)
        os.chdir(scratch)  # what code of users leaves where it is goes with Ray's own files, as ever with Tune
        self._work: queue.SimpleQueue[Reports] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="trials", daemon=True).start()
        self._begin(config)

    def _serve(self) -> None:
        while True:
            self._work.get().run()

    def _begin(self, config: Metrics) -> None:
        self.config, self._steps, self._began = config, 0, time.time()
        Actor._now = Reports(type(self).function, config)
        self._work.put(Actor._now)

    @classmethod
    def report(cls, metrics: Metrics) -> None:
        """What the function calls to report."""
        cls._now.tell(metrics)

    def train(self) -> Metrics:
        """A step: until the next report."""
        told = Actor._now.next()
        if "__duplicate__" in told:
            return told
        self._steps += 1
        return {"done": False, "training_iteration": self._steps, **self.get_auto_filled_metrics(), **told}

    def get_auto_filled_metrics(self, debug_metrics_only: bool = False) -> Metrics:
        """What Tune wants to know of every worker, and beside every report."""
        here = {"pid": os.getpid(), "hostname": platform.node(), "node_ip": ray.util.get_node_ip_address()}
        return {**here, "time_total_s": time.time() - self._began, "timestamp": int(time.time())}

    def reset(self, new_config: Metrics, storage: None = None) -> bool:
        """Take the next config, if the last one is through."""
        if not Actor._now.ended.wait(END_SECONDS):
            return False
        self._begin(new_config)
        return True

    def stop(self) -> None:
        """Nothing is left to do: the process ends."""


def report(metrics: Metrics) -> None:
    """Report from a function that an `Actor` runs."""
    Actor.report(metrics)


def nothing(_: object) -> None:
    """What workers get of things that are Tune's own."""
