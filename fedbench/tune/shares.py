"""How many trials share a GPU: by what they need of its memory, and by what was measured. Ray is not imported here."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from fedbench.base.memory import MAYBE_OUT_OF_MEMORY, out_of_memory

USUAL = 4  # trials on a GPU, where nothing was measured
USABLE = 0.95  # of a GPU's memory: others use it, too
CONTEXT = 600 * 2**20  # bytes that CUDA takes for each process, beside what torch reserves
STEP = 10_000  # Ray counts in ten-thousandths
ACCELERATOR = "accelerator_type:"  # before the type of a node's GPUs, among its resources


def trials_on_a_gpu(trial: float | None, gpu: float | None, measured: int | None) -> int:
    """As many as were measured to be best, four where nothing was, if they fit.

    trial: bytes that the largest trial reserves; gpu: bytes of the smallest GPU; None where that is not known.
    """
    wanted = measured or USUAL
    if trial is None or gpu is None:
        return wanted
    return max(1, min(wanted, int(USABLE * gpu // (trial + CONTEXT))))


def share_of(trials: int) -> float:
    """The share of a GPU with which so many trials fit on one, as Ray counts."""
    return math.floor(STEP / trials) / STEP


def gpu_types(nodes: Iterable[Mapping[str, float]]) -> Counter[str]:
    """How many GPUs of each type there are, by the resources of all nodes; those of unknown type are not counted."""
    types: Counter[str] = Counter()
    for node in nodes:
        for name in (name for name in node if name.startswith(ACCELERATOR)):
            types[name.removeprefix(ACCELERATOR)] += int(node.get("GPU", 0))
    return +types


def could_grow(share: float, reason: str) -> bool:
    """Return whether a trial that failed with a share of a GPU may succeed with more of it.

    That is so if its memory was too small, or may have been.
    """
    return 0 < share < 1 and (out_of_memory(reason) or any(sign in reason for sign in MAYBE_OUT_OF_MEMORY))


class Shares:
    """The share of a GPU that each trial takes; one that ran out of memory gets twice as much, once."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._grown: set[str] = set()

    def of(self, hash_: str) -> float:
        """That of a trial."""
        return min(1.0, 2 * self.share) if hash_ in self._grown else self.share

    def grow(self, hash_: str, reason: str) -> float | None:
        """The share with which a trial that failed is tried again; None if memory was not why, or it was already."""
        if hash_ in self._grown or not could_grow(self.share, reason):
            return None
        self._grown.add(hash_)
        return self.of(hash_)
