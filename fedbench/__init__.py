"""fedbench: a benchmark suite for weighted aggregation in federated learning."""

from pathlib import Path
from typing import TYPE_CHECKING

from fedbench.base.errors import ConfigError, UserError
from fedbench.config.trial import TrialConfig
from fedbench.simulation import Record, Simulation, simulate

if TYPE_CHECKING:
    import pandas as pd

__version__ = "0.1.0"


def load(study: str, scale: str = "quick", out: "str | Path" = "results") -> "pd.DataFrame":
    """All rounds of a study's stored trials as one tidy frame: the axes, seed and hash, then what a round records."""
    from fedbench.reports.report import rounds_frame, stored_trials
    from fedbench.specs.expand import expand
    from fedbench.store.store import Store

    expanded = expand(study, scale, changes={}, only={}, seeds=None)
    return rounds_frame(expanded, stored_trials(expanded, Store(Path(out))))


__all__ = ["ConfigError", "Record", "Simulation", "TrialConfig", "UserError", "__version__", "load", "simulate"]
