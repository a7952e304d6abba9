"""How trials would be run on this machine: how many at once, with which share of a GPU, and what is known of that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedbench.config import TrialConfig
from fedbench.cost.cases import PLAIN, Machine, Setting
from fedbench.cost.estimate import Pace, kind, peak_gpu_memory
from fedbench.cost.memory import estimated_gpu_memory
from fedbench.cost.shares import share_of, trials_on_a_gpu
from fedbench.cost.speeds import known_speeds
from fedbench.store.store import Store
from fedbench.tune.cluster import connected
from fedbench.tune.options import RunOptions


@dataclass(frozen=True)
class Placement:
    """at_once: trials on the whole machine; share: of a GPU, 0 without one; pace: what was measured, if anything was.

    gpu_memory: bytes that the largest trial reserves there.
    """

    at_once: int
    share: float
    gpu_memory: float
    pace: Pace | None

    @property
    def where(self) -> str:
        """What trials run on."""
        return "GPUs" if self.share else "CPUs"


def placement(
    options: RunOptions, configs: Sequence[TrialConfig], store: Store, machine: Machine, runs: int = 1
) -> Placement:
    """Where trials would go on a machine, each with so many runs side by side."""
    share, memory = options.gpus_per_trial, 0.0
    if machine.gpus and share != 0:
        known = informed(options, configs, store, machine, runs)
        memory = known.gpu_memory or 0.0
        share = share or share_of(trials_on_a_gpu(memory, machine.gpu_memory, known.gpu_trials, known.gpu_context))
    at_once = options.slots(machine.cpus, machine.gpus, share or 0.0)
    speeds = known_speeds(options.out, machine)
    if speeds is None or bool(share) != (machine.device == "cuda"):
        return Placement(at_once, share or 0.0, memory, None)
    on_each = max(1, at_once // machine.gpus) if share else at_once
    setting = Setting("graphed" if share else "eager", PLAIN, on_each, options.threads)
    return Placement(at_once, share or 0.0, memory, Pace(speeds, setting))


def informed(
    options: RunOptions, configs: Sequence[TrialConfig], store: Store, machine: Machine, runs: int = 1
) -> RunOptions:
    """Return options with what is known of GPU memory, and of how many trials should share a GPU.

    The memory is what stored trials of the same kind reserved, else an estimate. Where there cannot be any GPUs nothing
    is looked up: it takes a moment.
    """
    if not (options.address or connected() or machine.gpus):
        return options
    speeds, stored = known_speeds(options.out, machine), peak_gpu_memory(store)
    kinds = {(kind(config), config.precision): config for config in configs}
    each = (stored.get(kind_) or estimated_gpu_memory(config, speeds) for (kind_, _), config in kinds.items())
    memory = runs * max(each, default=0.0)
    if not (speeds and machine.gpus):
        return replace(options, gpu_memory=memory)
    context = options.gpu_context if speeds.context is None else speeds.context
    return replace(options, gpu_memory=memory, gpu_trials=speeds.best().at_once, gpu_context=context)
