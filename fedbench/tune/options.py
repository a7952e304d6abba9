"""How to run. Ray is not imported here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedbench.cost.shares import CONTEXT


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
