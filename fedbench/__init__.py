"""fedbench: a benchmark suite for weighted aggregation in federated learning."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbench.base.errors import ConfigError, UserError

if TYPE_CHECKING:
    import pandas as pd

    from fedbench.config import TrialConfig
    from fedbench.simulation import Callback, Record, Simulation, drive, simulate

__version__ = "0.1.0"

# Imported when they are asked for: command lines answer before torch is imported.
_HOMES = {
    "TrialConfig": "fedbench.config",
    **dict.fromkeys(("Callback", "Record", "Simulation", "drive", "simulate"), "fedbench.simulation"),
}


def __getattr__(name: str) -> Any:
    """What the package offers beyond errors."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedbench' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def load(study: str, scale: str = "quick", out: "str | Path" = "results") -> "pd.DataFrame":
    """All rounds of a study's stored trials as one tidy frame: the axes, seed and hash, then what a round records."""
    from fedbench.reports.report import rounds_frame, stored_trials
    from fedbench.specs.expand import expand
    from fedbench.store.store import Store

    expanded = expand(study, scale, changes={}, only={}, seeds=None)
    return rounds_frame(expanded, stored_trials(expanded, Store(Path(out))))


__all__ = [
    "Callback",
    "ConfigError",
    "Record",
    "Simulation",
    "TrialConfig",
    "UserError",
    "__version__",
    "drive",
    "load",
    "simulate",
]
