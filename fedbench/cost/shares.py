"""How many trials share a GPU: by what they need of its memory, and by what was measured. Ray is not imported here."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fedbench.base.errors import UserError
from fedbench.base.memory import could_grow

USUAL = 4  # trials on a GPU, where nothing was measured
USABLE = 0.95  # of a GPU's memory: others use it, too
CONTEXT = 600 * 2**20  # bytes that CUDA itself takes for each process, where that was not measured
STEP = 10_000  # Ray counts in ten-thousandths
ACCELERATOR = "accelerator_type:"  # before the type of a node's GPUs, among its resources


def trials_on_a_gpu(trial: float | None, gpu: float | None, measured: int | None, context: float = CONTEXT) -> int:
    """Return how many trials share a GPU: as many as were measured to be best, four where nothing was, if they fit.

    trial: bytes that the largest trial reserves; gpu: bytes of the smallest GPU; None where that is not known;
    context: bytes that CUDA itself takes for each process.
    """
    wanted = measured or USUAL
    if trial is None or gpu is None:
        return wanted
    return max(1, min(wanted, int(USABLE * gpu // (trial + context))))


def share_of(trials: int) -> float:
    """The share of a GPU with which so many trials fit on one, as Ray counts."""
    return math.floor(STEP / trials) / STEP


def spread(trials: int, nodes: Sequence[Mapping[str, float]], resources: Mapping[str, float]) -> list[float]:
    """Return the shares of a GPU with which so many trials are distributed evenly over all GPUs, in ascending order.

    Ray fills one GPU before it uses the next one. So a trial that has one other on its GPU takes a half of it, and so
    on, down to the share in `resources`. If they do not all fit at a time, there are as many shares as do.

    nodes: the resources of every node; resources: those that one trial takes.
    """
    share = resources["GPU"]
    most = int(1 / share + 1e-6)
    others = {name: amount for name, amount in resources.items() if name != "GPU" and amount}
    free = [min((int(node.get(name, 0) / amount) for name, amount in others.items()), default=trials) for node in nodes]
    gpus = [(number, gpu) for number, node in enumerate(nodes) for gpu in range(int(node.get("GPU", 0)))]
    on_gpu = dict.fromkeys(gpus, 0)
    for _ in range(trials):
        usable = [gpu for gpu in gpus if free[gpu[0]] and on_gpu[gpu] < most]
        if not usable:
            break
        chosen = min(usable, key=lambda gpu: on_gpu[gpu])
        on_gpu[chosen] += 1
        free[chosen[0]] -= 1
    return sorted(share if count == most else share_of(count) for count in on_gpu.values() for _ in range(count))


class Packing:
    """What each of some trials takes of the cluster, so that no GPU is idle while another one has several of them.

    trials: how many there are; resources: what one of them takes at least; at_once: how many run at a time, at most;
    nodes: the resources of the nodes over which they are spread, none if Ray is to distribute them.
    """

    def __init__(
        self, trials: int, resources: Mapping[str, float], at_once: int, nodes: Sequence[Mapping[str, float]] = ()
    ) -> None:
        self.resources = {name: amount for name, amount in resources.items() if amount or name == "CPU"}
        self._nodes, self._left = nodes, trials
        self._shares: dict[str, float] = {}  # of those that run
        self.at_once = len(spread(at_once, nodes, self.resources)) or at_once if nodes else at_once

    def take(self, trial: str) -> dict[str, float]:
        """Return the resources of a trial that is about to start."""
        if not self._nodes:
            return self.resources
        even = Counter(spread(min(self._left, self.at_once), self._nodes, self.resources))
        # Small shares first: Ray puts them together, and leaves whole GPUs to the large ones.
        share = min((even - Counter(self._shares.values())).elements(), default=self.resources["GPU"])
        self._shares[trial] = share
        return {**self.resources, "GPU": share}

    def ended(self, trial: str) -> None:
        """Note that a trial does not run any more."""
        self._left -= 1
        self._shares.pop(trial, None)


def gpu_types(nodes: Iterable[Mapping[str, float]]) -> Counter[str]:
    """How many GPUs of each type there are, by the resources of all nodes; those of unknown type are not counted."""
    types: Counter[str] = Counter()
    for node in nodes:
        for name in (name for name in node if name.startswith(ACCELERATOR)):
            types[name.removeprefix(ACCELERATOR)] += int(node.get("GPU", 0))
    return +types


def default_share(
    trial: float | None, gpus: Sequence[float | None], measured: int | None, context: float
) -> tuple[float, str]:
    """Return the share of a GPU for trials that were given none, and a line that says so.

    Ray also counts GPUs that torch cannot use, such as Apple's.

    trial, measured, context: as for `trials_on_a_gpu`; gpus: bytes of the smallest GPU of each node that has any, 0 if
    torch can use none there, None if the node does not tell.
    """
    if not any(gpu is None or gpu for gpu in gpus):
        return 0.0, "--gpus-per-trial 0: torch can use none of the GPUs (for NVIDIA's it has to be a CUDA build)"
    known = [gpu for gpu in gpus if gpu]
    trials = trials_on_a_gpu(trial, min(known) if len(known) == len(gpus) else None, measured, context)
    share = share_of(trials)
    return share, f"--gpus-per-trial {share:g} ({trials} trials on a GPU)"


def mixed_types(nodes: Iterable[Mapping[str, float]], resources: Mapping[str, float]) -> str:
    """Return a line if trials that take such resources may run on GPUs of several types; else nothing."""
    types = gpu_types(nodes)
    if len(types) < 2 or any(name.startswith(ACCELERATOR) for name in resources):
        return ""
    ordered = sorted(types.items(), key=lambda item: (-item[1], item[0]))
    there = ", ".join(f"{count} {name}" for name, count in ordered)
    one = f"--resources {ACCELERATOR}{ordered[0][0]}=0.001"
    return f"GPUs of several types ({there}): results may differ in their rounding; {one} keeps to one"


def too_much(wanted: Mapping[str, float], nodes: Sequence[Mapping[str, float]], where: str) -> str | None:
    """Return which of the resources that a trial wants no node has; None if a trial fits on one of the nodes."""
    if any(all(node.get(name, 0.0) >= amount for name, amount in wanted.items()) for node in nodes):
        return None
    for name, amount in wanted.items():
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if most < amount:
            option = {"CPU": "--cpus-per-trial ", "GPU": "--gpus-per-trial "}.get(name, f"--resources {name}=")
            return f"{option}{amount:g}: {where} {most:g}"
    more = wanted.keys() - {"CPU", "GPU"}
    options = ["--cpus-per-trial", "--gpus-per-trial", *(["--resources"] if more else [])]
    return f"{', '.join(options)}: no node has {'all' if more else 'both'}"


def check_this_machine(wanted: Mapping[str, float]) -> None:
    """Raise UserError if this machine cannot hold a trial that wants such resources."""
    import torch

    here = {"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}
    if here["GPU"]:  # Ray finds out their type when it starts
        here |= {name: 1.0 for name in wanted if name.startswith(ACCELERATOR)}
    if complaint := too_much(wanted, [here], "this machine has"):
        raise UserError(f"{complaint}; ask for less")


class Shares:
    """The share of a GPU that each trial takes; one that ran out of memory gets twice as much, once."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._grown: dict[str, float] = {}

    def of(self, hash_: str) -> float:
        """Return the share of a trial, at least."""
        return self._grown.get(hash_, self.share)

    def grow(self, hash_: str, reason: str, had: float | None = None) -> float | None:
        """Return the share with which a trial that failed is tried again.

        It is None if memory was not the reason, or if the trial was tried again already. had: the share with which it
        failed, if that is not the one of all trials.
        """
        share = self.share if had is None else had
        if hash_ in self._grown or not could_grow(share, reason):
            return None
        self._grown[hash_] = min(1.0, 2 * share)
        return self._grown[hash_]
