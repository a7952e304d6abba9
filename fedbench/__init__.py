"""fedbench: a benchmark suite for weighted aggregation in federated learning."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from fedbench.base.errors import ConfigError, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from fedbench.config import TrialConfig
    from fedbench.render.results import Results
    from fedbench.simulation import Callback, Record, Simulation, drive, simulate

__version__ = "0.1.0"

# Imported when they are asked for: command lines answer before torch is imported.
_HOMES = {
    "TrialConfig": "fedbench.config",
    "Results": "fedbench.render.results",
    **dict.fromkeys(("Callback", "Record", "Simulation", "drive", "simulate"), "fedbench.simulation"),
}


def __getattr__(name: str) -> Any:
    """What the package offers beyond errors."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedbench' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def run(study: "str | Path", scale: str = "quick", out: "str | Path" = "results", **options: Any) -> "Results":
    """Run what is missing of a study (a name, or a file of one's own), as `python -m fedbench.study` does.

    Every option of that command is a keyword: `set={"rounds": 20}` (or `changes`, as in `load`),
    `only={"data.alpha": [100, 0.1]}`, `seeds=[8, 9]`, `track=["mlflow"]`, `modules=["my_method"]` for --import,
    `max_concurrent=2`, `fresh=True`. Where the command would end with code 1, as with `strict=True` and a trial that
    failed, UserError is raised; Ctrl-C comes through.
    """
    from fedbench.base.signals import Interrupted
    from fedbench.cli.command import FAILED
    from fedbench.cli.conduct import conduct
    from fedbench.cli.keywords import parsed
    from fedbench.study import COMMAND, parser

    if study == "all":
        raise UserError("'all' is many studies; run one after the other")
    chosen, arguments = parsed(parser(), str(study), {"scale": scale, "out": out, **options})
    code = conduct(COMMAND, chosen, arguments)
    if code > 128:
        raise Interrupted(code - 128)
    if code == FAILED:
        raise UserError(f"{study}: trials failed or are left, as said above; fedbench.load has what is stored")
    from fedbench.analysis.trials import stored_trials
    from fedbench.cli.studies import chosen_studies
    from fedbench.render.results import Results
    from fedbench.store.store import Store

    (expanded,) = chosen_studies(chosen)
    return Results(expanded, stored_trials(expanded, Store(chosen.out)))


@overload
def load(
    study: "str | Path",
    scale: str = ...,
    out: "str | Path" = ...,
    *,
    table: None = ...,
    changes: "Mapping[str, Any] | None" = ...,
    only: "Mapping[str, Any] | None" = ...,
    seeds: "Sequence[int] | None" = ...,
) -> "Results": ...


@overload
def load(
    study: "str | Path",
    scale: str = ...,
    out: "str | Path" = ...,
    *,
    table: Literal["rounds", "trials", "cells"],
    changes: "Mapping[str, Any] | None" = ...,
    only: "Mapping[str, Any] | None" = ...,
    seeds: "Sequence[int] | None" = ...,
) -> "pd.DataFrame": ...


def load(
    study: "str | Path",
    scale: str = "quick",
    out: "str | Path" = "results",
    *,
    table: Literal["rounds", "trials", "cells"] | None = None,
    changes: "Mapping[str, Any] | None" = None,
    only: "Mapping[str, Any] | None" = None,
    seeds: "Sequence[int] | None" = None,
) -> "Results | pd.DataFrame":
    """What is stored of a study (a name, or a file of one's own), as `run` returns it; an error if there is nothing.

    `changes`, `only` and `seeds` are what --set, --only and --seeds are to a command; `table` names a frame of the
    results to have alone.
    """
    from fedbench.analysis.trials import stored_trials
    from fedbench.base.settings import nest, plain
    from fedbench.render.results import Results
    from fedbench.specs.expand import expand
    from fedbench.specs.names import text_labels
    from fedbench.store.store import Store

    points = {key: text_labels(values) for key, values in (only or {}).items()}
    expanded = expand(str(study), scale, changes=nest(plain(changes or {})), only=points, seeds=seeds)
    stored = stored_trials(expanded, Store(Path(out)))
    if not stored:
        raise UserError(f"{out}: holds no trial of {study} at scale {scale}; run it first")
    results = Results(expanded, stored)
    return results if table is None else getattr(results, table)


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
    "run",
    "simulate",
]
