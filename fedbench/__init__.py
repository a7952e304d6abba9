"""fedbench: a benchmark suite for weighted aggregation in federated learning."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedbench.base.errors import ConfigError, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def load(
    study: str,
    scale: str = "quick",
    out: "str | Path" = "results",
    *,
    table: Literal["rounds", "trials", "cells"] = "rounds",
    changes: "Mapping[str, Any] | None" = None,
    only: "Mapping[str, Sequence[str]] | None" = None,
    seeds: "Sequence[int] | None" = None,
) -> "pd.DataFrame":
    """What is stored of a study (a name, or a file of one's own), as one tidy frame; an error where there is nothing.

    rounds: every round of every trial; trials: a row a trial, with its scores and its cost; cells: a row a place of a
    table. `changes`, `only` and `seeds` are what --set, --only and --seeds are to a command.
    """
    from fedbench.base.settings import nest
    from fedbench.reports.report import rounds_frame, stored_trials, trials_frame
    from fedbench.reports.tables import cells_frame, fill_tables
    from fedbench.specs.expand import expand
    from fedbench.store.store import Store

    expanded = expand(study, scale, changes=nest(changes or {}), only=only or {}, seeds=seeds)
    stored = stored_trials(expanded, Store(Path(out)))
    if not stored:
        raise UserError(f"{out}: holds no trial of {study} at scale {scale}; run it first")
    if table == "cells":
        return cells_frame(expanded, fill_tables(expanded, stored))
    return (trials_frame if table == "trials" else rounds_frame)(expanded, stored)


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
