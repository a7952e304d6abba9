"""What people see of a trial who watch Ray: the lines of its worker's log, and its gauges for Prometheus."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from ray.util.metrics import Gauge

from fedbench.config.naming import SHORT_HASH, RunName
from fedbench.simulation import Callback, Record, Simulation
from fedbench.simulation.record import columns

TAGS = ("study", "axes", "seed", "trial")
TELL_SECONDS = 0.5  # between two settings of the gauges; Ray collects them once a second at most
PREFIX = "fedbench_"  # before a gauge's name; Ray puts ray_ before that


def worker_name(study: str) -> str:
    """This process, as the dashboard lists it."""
    return f"{study}, worker {os.getpid()} on {socket.gethostname()}"


def log(text: str) -> None:
    """A line of this worker's log; the dashboard opens it at standard error. The driver's terminal does not show it."""
    with suppress(OSError):  # a full disk, say: a log is no reason to lose a trial
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", file=sys.stderr, flush=True)


def gauge_names() -> dict[str, str]:
    """Every gauge of a trial, by its name without prefixes, and what it tells: how far it is, and all of rounds.csv."""
    numbers = {name: column.label for name, column in columns().items() if column.file == "rounds"}
    told = {name: label.replace("(%)", "(fraction)") for name, label in numbers.items()}
    return {"round": "rounds done", "rounds": "rounds in all"} | told


@cache
def _gauge(name: str) -> Gauge:
    return Gauge(PREFIX + name, description=gauge_names()[name], tag_keys=TAGS)


class Watched(Callback[Simulation, Record]):
    """Tells a trial's rounds to its worker's log and to the gauges. A context manager around the whole trial.

    Ray forgets a gauge that is not set again within seconds, and rounds may take longer: a thread sets them until the
    trial is over. So a trial has gauges while it runs, and soon after has none. The thread starts with the run: until
    then the trial imports what it needs, and two threads had better not import the same things.

    warn: gets what the run says about its engine; last: the last round and the last score, with its round.
    """

    def __init__(self, name: RunName, hash_: str, warn: Callable[[str], object]) -> None:
        self.name, self.warn, self.last = name, warn, dict[str, Any](hash=hash_, round=0)
        self._trial = hash_[:SHORT_HASH]
        values = (name.study, name.axes, str(name.seed), self._trial)
        self._tags = dict(zip(TAGS, values, strict=True))
        self._values: dict[str, float] = {}
        self._over = threading.Event()
        self._teller = threading.Thread(target=self._keep_telling, daemon=True)

    def start(self, run: Simulation) -> None:
        """The data are there; rounds may be behind it."""
        for record in run.state.history:
            self._take(record)
        self._values = {"round": run.state.round, "rounds": run.config.rounds}
        self._teller.start()
        if run.state.round:
            self.log(f"goes on after round {run.state.round}/{run.config.rounds}")

    def round(self, run: Simulation, seen: Record) -> None:
        """A line, and new values for the gauges; a number that this round does not have keeps its last value."""
        self._take(seen)
        scored = "" if seen.test_accuracy is None else f", accuracy {100 * seen.test_accuracy:.2f} %"
        self.log(f"round {seen.round}/{run.config.rounds}{scored}")
        self._values = {**self._values, **seen.numbers(), "round": seen.round}

    def end(self, run: Simulation) -> None:
        """Pass on what the run says about its engine."""
        if run.engine.complaint:
            self.warn(run.engine.complaint)

    def log(self, text: str) -> None:
        """A line on this trial."""
        log(f"{self.name}: {text}")

    def _take(self, seen: Record) -> None:
        self.last["round"] = seen.round
        if seen.test_accuracy is not None:
            self.last |= {"test_accuracy": seen.test_accuracy, "scored_round": seen.round}

    def _keep_telling(self) -> None:
        while not self._over.wait(TELL_SECONDS):
            self._tell()

    def _tell(self) -> None:
        values = self._values
        for name in gauge_names().keys() & values.keys():
            _gauge(name).set(float(values[name]), tags=self._tags)

    def __enter__(self) -> "Watched":
        self.log(f"starts (trial {self._trial} of {self.name.study})")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._teller.is_alive():
            self._teller.join()
            self._tell()
