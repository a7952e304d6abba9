"""How to run, and who listens. Ray is not imported here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from fedbench.cost.shares import CONTEXT

UNSTORED = "not stored"  # how a trial ends that the file system has stopped: the next command goes on with it
UNCAPTURED = "not captured"  # how a trial ends whose steps cannot be captured: it goes on in another process, without


@dataclass(frozen=True)
class RunOptions:
    """How to run: where results and data are, and what of the cluster each trial takes.

    study: what is run, as Ray's dashboard names it; scale: at which scale; gpus_per_trial: a share, or None for as many
    trials on a GPU as fit and were measured to be best; gpu_memory, gpu_trials: bytes that the largest trial reserves,
    and that number, where they are known; gpu_context: bytes that CUDA itself takes for each process; resources:
    further ones of Ray's, by name; environment: variables for workers, some of them secret: they are sent, and never
    written down; ship: whether fedbench itself is sent to the cluster; supervised: whether a parent starts this process
    again if it dies; checkpoints: the URI of a second place for them, which may have a password in it and is sent
    likewise; save_model: whether to keep every trial's final model.
    """

    out: Path
    study: str = ""
    scale: str = ""
    data_dir: Path | None = None
    address: str | None = None
    cpus_per_trial: float = 1.0
    gpus_per_trial: float | None = None
    gpu_memory: float | None = None
    gpu_trials: int | None = None
    gpu_context: float = CONTEXT
    resources: Mapping[str, float] = field(default_factory=dict)
    max_concurrent: int | None = None
    max_failures: int = 3
    dashboard: bool = False
    autoscaling: bool = False
    ship: bool = False
    supervised: bool = False
    checkpoints: str | None = field(default=None, repr=False)
    save_model: bool = False
    modules: tuple[str, ...] = ()
    trackers: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def threads(self) -> int:
        """Of each trial."""
        return max(1, int(self.cpus_per_trial))

    def wanted(self, gpu_share: float | None = None) -> dict[str, float]:
        """Return the resources of a trial by Ray's names, with this share of a GPU or the one that was asked for."""
        share = (self.gpus_per_trial or 0.0) if gpu_share is None else gpu_share
        return {"CPU": self.cpus_per_trial, "GPU": share, **self.resources}

    def slots(self, cpus: float, gpus: float = 0.0, gpu_share: float = 0.0) -> int:
        """How many trials run at a time on so many CPUs and GPUs, each with a share of a GPU."""
        fit = [cpus / self.cpus_per_trial, *([gpus / gpu_share] if gpu_share else [])]
        return max(1, min(int(min(fit)), self.max_concurrent or 10**9))


class Score(NamedTuple):
    """A test accuracy, as a fraction, and the round whose model has it: not every round is scored."""

    accuracy: float
    round: int


class Listener(Protocol):
    """Who is told what becomes of trials."""

    def say(self, text: str) -> None:
        """Something is about to take a while."""


class StudyListener(Listener, Protocol):
    """Who is told what becomes of a study's trials, which are named by their hash.

    outcomes: of the trials that have ended; running: those that have run a round and have not ended; elsewhere: those
    that another command runs.
    """

    outcomes: dict[str, str]
    running: set[str]
    elsewhere: dict[str, str]

    @property
    def hopeless(self) -> str:
        """Why no further trial is to be run, in words; empty while trials are to be run."""

    def held(self, hash_: str, holder: str) -> None:
        """Another command runs a trial."""

    def stopped(self, hash_: str) -> None:
        """A trial was asked to stop, and has: it goes on with the next command."""

    def update(self, hash_: str, round_: int, score: Score | None) -> None:
        """A trial has got to a round; `score` is its last one, None if no round was scored yet."""

    def ended(self, hash_: str, outcome: str, detail: str) -> None:
        """A trial is done, diverged or failed."""

    def warn(self, text: str) -> None:
        """Something went wrong that ended no trial."""


class SearchListener(Listener, Protocol):
    """Who is told what becomes of a method's suggestions. crashed: how many failed."""

    crashed: int

    def update(self, number: int, round_: int, score: float | None) -> None:
        """A suggestion has got to a round."""

    def ended(self, number: int, values: Mapping[str, object], outcome: str, score: float | None, reason: str) -> None:
        """A suggestion has its outcome."""
