"""What a run is called wherever people watch it: progress, logs, TensorBoard, Ray's dashboard, Prometheus."""

from dataclasses import dataclass

from fedbench.base.files import safe_name
from fedbench.config.schema import TrialConfig

LONGEST = 80  # characters of a folder's name, before the hash
SHORT_HASH = 12  # characters that tell trials apart


@dataclass(frozen=True)
class RunName:
    """A run by its study (or search; empty for a single run), its place on the axes in words, and its seed."""

    study: str
    axes: str
    seed: int

    def __str__(self) -> str:
        """What differs between the runs of a study: alpha 0.1, FedLAW, seed 9."""
        return f"{self.axes}, seed {self.seed}" if self.axes else f"seed {self.seed}"

    def folder(self, hash_: str) -> str:
        """A folder for the run, below one for its study, that people can read and that no other run has."""
        name = f"{safe_name(str(self), ' =,.-_')[:LONGEST]}, {hash_[:SHORT_HASH]}"
        return f"{safe_name(self.study)}/{name}" if self.study else name


def name_alone(config: TrialConfig) -> RunName:
    """The name of a run that belongs to no study."""
    return RunName("", f"{config.method.name}, {config.model}", config.seed)
