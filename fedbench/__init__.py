"""fedbench: a benchmark suite for weighted aggregation in federated learning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedbench.base.errors import ConfigError, UserError

if TYPE_CHECKING:
    from fedbench.api import load, report, run, search, verify
    from fedbench.config import TrialConfig
    from fedbench.render.results import Results
    from fedbench.simulation import Callback, Record, Simulation, drive, simulate

__version__ = "0.1.0"

# Where names are defined that are imported when they are used first: commands answer before torch is imported.
_MODULES = {
    **dict.fromkeys(("load", "report", "run", "search", "verify"), "fedbench.api"),
    **dict.fromkeys(("Callback", "Record", "Simulation", "drive", "simulate"), "fedbench.simulation"),
    "Results": "fedbench.render.results",
    "TrialConfig": "fedbench.config",
}


def __getattr__(name: str) -> Any:
    """Import a name of the package from the module that defines it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'fedbench' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """List what users call."""
    return sorted(__all__)


__all__ = [
    "Callback",
    "ConfigError",
    "Record",
    "Results",
    "Simulation",
    "TrialConfig",
    "UserError",
    "__version__",
    "drive",
    "load",
    "report",
    "run",
    "search",
    "simulate",
    "verify",
]
