"""What is measured, and what comes of it, as plain data."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

GIB = 2**30
MOST_THREADS = 8  # of a trial: more than that never paid for networks of this size
SHARING = (2, 4, 8)  # trials at once on a GPU, beside one alone
PLAIN = "float32"  # the precision in which engines and numbers of trials are compared


class Setting(NamedTuple):
    """A way of running trials: the engine, the precision, how many at once, and the threads of each."""

    engine: str
    precision: str
    at_once: int
    threads: int


@dataclass(frozen=True)
class Machine:
    """Where it was measured. gpu_memory: bytes of the smallest GPU; name: of the GPU, or the processor."""

    device: Literal["cpu", "cuda"]
    name: str
    cpus: int
    gpus: int = 0
    gpu_memory: int | None = None

    @classmethod
    def here(cls) -> "Machine":
        """This one: its GPUs where torch can use them, else its CPUs."""
        import torch

        from fedbench.simulation.environment import processor

        cpus = os.cpu_count() or 1
        if not torch.cuda.is_available():
            return cls("cpu", processor(), cpus)
        cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        return cls("cuda", cards[0].name, cpus, len(cards), min(card.total_memory for card in cards))

    def used(self, setting: Setting) -> bool:
        """Whether trials are run like that here: Ray fills all CPUs, and leaves it to shares how many are on a GPU."""
        return self.device == "cuda" or setting.at_once == self.cpus // setting.threads

    def __str__(self) -> str:
        cpus = f"{self.cpus} core{'s' if self.cpus > 1 else ''}"
        if self.gpu_memory is None:
            return cpus
        return f"{self.gpus} x {self.name} of {self.gpu_memory / GIB:.0f} GiB, {cpus}"


@dataclass(frozen=True)
class Case:
    """One thing to measure: a model on images of a data set's shape, in one setting."""

    data: str
    model: str
    setting: Setting

    def __str__(self) -> str:
        engine, precision, at_once, threads = self.setting
        return f"{self.model}, {engine}, {precision}, {at_once} at once, {threads} thread{'s' if threads > 1 else ''}"


@dataclass(frozen=True)
class Found:
    """What one of the trials of a case found: samples a second trained and scored, and its peak memory in bytes.

    engine: the one that it got; note: what it has to complain about, such as why it is another than was wanted;
    memory: of the GPU (reserved), else of the process.
    """

    engine: str
    trained: float
    scored: float
    memory: int
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A case with what was measured, all its trials together.

    samples: trained a second; scored: images a second; rounds: a minute, of the paper's setting, scored; memory: bytes
    of the largest trial; flops: operations of a training sample; share: of the device's own speed in products of large
    matrices that is reached with them.
    """

    data: str
    model: str
    engine: str
    precision: str
    at_once: int
    threads: int
    samples: float
    scored: float
    rounds: float
    memory: int
    flops: int
    share: float

    @property
    def setting(self) -> Setting:
        """How its trials were run."""
        return Setting(self.engine, self.precision, self.at_once, self.threads)


def settings(machine: Machine, precisions: Sequence[str]) -> list[Setting]:
    """The ways to compare on a machine.

    On a GPU each engine alone, each precision, then more trials at once; on CPUs all of them used by trials of one
    thread, of two, and so on, and each precision alone.
    """
    others = [precision for precision in precisions if precision != PLAIN]
    if machine.device == "cuda":
        alone = [Setting("eager", PLAIN, 1, 1), *(Setting("graphed", each, 1, 1) for each in (PLAIN, *others))]
        return alone + [Setting("graphed", PLAIN, count, 1) for count in SHARING if count <= machine.cpus]
    threads = [2**i for i in range(4) if 2**i <= min(machine.cpus, MOST_THREADS)]
    full = [Setting("eager", PLAIN, machine.cpus // count, count) for count in threads]
    return list(dict.fromkeys([*(Setting("eager", each, 1, 1) for each in (PLAIN, *others)), *full]))


def cases(models: Iterable[tuple[str, str]], machine: Machine, precisions: Sequence[str]) -> list[Case]:
    """Every way, for every (data set, model); first those that decide how trials are run, for all models."""
    ways = sorted(settings(machine, precisions), key=lambda setting: setting.precision != PLAIN)
    models = list(models)
    return [Case(data, model, setting) for setting in ways for data, model in models]
