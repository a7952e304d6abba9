"""The name of a run in progress messages, logs, TensorBoard, Ray's dashboard and Prometheus."""

from dataclasses import dataclass

from fedbench.base.files import safe_name
from fedbench.config.schema import TrialConfig

LONGEST = 80  # characters of a folder's name before the hash
SHORT_HASH = 12  # characters of a hash that are enough to distinguish trials


@dataclass(frozen=True)
class RunName:
    """The name of a run: its study or search (empty for a single run), its values on the axes in words, its seed."""

    study: str
    axes: str
    seed: int

    def __str__(self) -> str:
        """The values that differ between the runs of a study, such as "alpha 0.1, FedLAW, seed 9"."""
        return f"{self.axes}, seed {self.seed}" if self.axes else f"seed {self.seed}"

    def folder(self, hash_: str) -> str:
        """A readable and unique path STUDY/RUN for the files of this run."""
        name = f"{safe_name(str(self), ' =,.-_')[:LONGEST]}, {hash_[:SHORT_HASH]}"
        return f"{safe_name(self.study)}/{name}" if self.study else name


def name_alone(config: TrialConfig) -> RunName:
    """The name of a run that belongs to no study."""
    return RunName("", f"{config.method.name}, {config.model}", config.seed)
