"""What --set may change of a study or a search space: nothing that has no effect, or another one than it says."""

from collections.abc import Mapping, Sequence

from fedbench.base.errors import ConfigError
from fedbench.base.explain import keys
from fedbench.base.settings import Settings
from fedbench.config import TrialConfig
from fedbench.specs.parameters import MISSING, look_up


def counted(changes: Settings) -> Settings:
    """Return the changes that make another study or search; where trials run does not."""
    return {key: value for key, value in changes.items() if key != "run"}


def check_changes(changes: Settings, axes: Mapping[str, Sequence[Settings]], path: str = "") -> None:
    """Refuse changes of a seed, of a whole group of settings, and of a key that all points of an axis set.

    `axes`: for each, the settings of its points.
    """
    if not changes:
        return
    groups = {key.partition(".")[0] for key in keys(TrialConfig) if "." in key}
    for name, value in changes.items():
        key = f"{path}{name}"
        if key == "seed":
            raise ConfigError("--set seed: use --seeds")
        if isinstance(value, dict):
            check_changes(value, axes, f"{key}.")
            continue
        if key in groups:
            raise ConfigError(f"--set {key}={value}: {key} is a group of settings; set one of them, {key}.KEY={value}")
        for axis, points in axes.items():
            if all(look_up(settings, key) is not MISSING for settings in points):
                raise ConfigError(f"--set {key}: every point of the axis '{axis}' sets its own; pick some with --only")
