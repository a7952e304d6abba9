"""What to run and how, as commands and calls from Python state it, checked. Quick to import."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypedDict

from fedbench.base.errors import UserError, unknown
from fedbench.base.files import RESULTS
from fedbench.specs.names import SCALES, text_labels
from fedbench.tune.options import RunOptions

SEARCH_PREFIX = "search-"  # before a search's name where studies are named, too
OWN_OPTIONS = {"CPU": "--cpus-per-trial", "GPU": "--gpus-per-trial"}  # Ray resources that have an option of their own


class RunKeywords(TypedDict, total=False):
    """How trials are run: keywords of `fedbench.run` and `fedbench.search`, options of their commands.

    data_dir: the folder of data sets; track: names of trackers; address: HOST:PORT of a Ray cluster, or auto;
    autoscaling: wait for nodes that the cluster adds on demand; ship: send fedbench itself to the nodes; checkpoints:
    a URI where checkpoints are stored, too; cpus_per_trial, gpus_per_trial: resources of each trial, `auto` or None
    for as many trials on a GPU as fit; resources: further Ray resources, by name or as NAME=N; max_concurrent: trials
    at a time; max_failures: how often a trial whose process died is restarted; dashboard: start Ray's dashboard.
    """

    data_dir: str | Path | None
    track: str | Sequence[str]
    address: str | None
    autoscaling: bool
    ship: bool
    checkpoints: str | Path | None
    cpus_per_trial: float
    gpus_per_trial: float | Literal["auto"] | None
    resources: str | Sequence[str] | Mapping[str, float]
    max_concurrent: int | None
    max_failures: int
    dashboard: bool


@dataclass(frozen=True)
class Selection:
    """Which trials of a study or a search space are meant, and the folder of their results.

    name: a built-in name or a file; changes: nested base settings that replace those of the file; only: labels to
    pick, by axis; seeds: replace those of the file; modules: imported before anything is read.
    """

    name: str
    scale: str = "quick"
    out: Path = RESULTS
    changes: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seeds: Sequence[int] | None = None
    modules: Sequence[str] = ()


def select(
    name: str | Path,
    scale: str = "quick",
    out: str | Path = RESULTS,
    *,
    changes: Mapping[str, Any] | None = None,
    only: Mapping[str, Any] | None = None,
    seeds: str | int | Iterable[int] | None = None,
    modules: str | Iterable[str] = (),
) -> Selection:
    """Return a checked selection; UserError says which value is wrong.

    changes: settings, nested or with dotted keys, numbers of NumPy included; only: a label or several, by axis; seeds:
    numbers, or a text such as 8,9.
    """
    if scale not in SCALES:
        raise UserError(unknown("scale", scale, SCALES))
    for keyword, value in (("set", changes), ("only", only)):
        if value is not None and not isinstance(value, Mapping):
            raise UserError(f"{keyword} = {value!r}: must be a mapping, such as {{'data.alpha': 0.1}}")
    return Selection(
        str(name),
        scale,
        _path("out", out),
        _settings(changes) if changes else {},
        {key: text_labels(labels) for key, labels in (only or {}).items()},
        None if seeds is None else _seeds(seeds),
        _names("modules", modules),
    )


def _settings(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings nested, with plain Python values."""
    import json

    from fedbench.base.settings import nest, plain

    for key, value in changes.items():
        try:
            json.dumps(plain(value))
        except (TypeError, ValueError):
            raise UserError(f"set: {key} = {value!r}: must be made of numbers, words, lists and mappings") from None
    return nest(plain(changes), "set")


def _seeds(seeds: str | int | Iterable[int]) -> list[int]:
    texts = seeds.split(",") if isinstance(seeds, str) else [str(seed) for seed in _several(seeds)]
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        raise UserError(f"--seeds {','.join(texts)!r}: expected whole numbers, such as 8,9,10") from None
    if twice := [seed for number, seed in enumerate(numbers) if seed in numbers[:number]]:
        raise UserError(f"--seeds {','.join(texts)}: {twice[0]} stands twice; name it once")
    return numbers


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Path) else [value]


def _names(keyword: str, value: Any) -> tuple[str, ...]:
    names = _several(value)
    if not all(isinstance(name, str | Path) and str(name).strip() for name in names):
        raise UserError(f"{keyword} = {value!r}: must be a name or several")
    return tuple(map(str, names))


def _path(keyword: str, value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise UserError(f"{keyword} = {value!r}: must be one value, the name of a folder")
    if not str(value).strip():
        raise UserError(f"{keyword}: name a folder")
    return Path(value)


def _flag(keyword: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"{keyword} = {value!r}: must be True or False")
    return value


def check_flags(**flags: Any) -> None:
    """Raise UserError if one of these keywords is neither True nor False."""
    for keyword, value in flags.items():
        _flag(keyword, value)


def _text(keyword: str, value: Any) -> str:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise UserError(f"{keyword} = {value!r}: must be a text")
    return str(value)


def _number(keyword: str, value: Any, least: float, *, whole: bool = False) -> Any:
    option = f"--{keyword.replace('_', '-')}"
    if isinstance(value, bool) or not isinstance(value, Real) or (whole and value % 1 != 0):
        raise UserError(f"{option} {value!r}: must be a {'whole ' if whole else ''}number")
    number = int(float(value)) if whole else float(value)
    if not number >= least:
        raise UserError(f"{option} {number}: must be at least {least}")
    return number


def gpu_share(value: Any) -> float | None:
    """Return a share of a GPU; None for `auto`. Ray takes no fraction above 1."""
    if value == "auto":
        return None
    try:
        share = float(value)
    except (TypeError, ValueError):
        raise UserError(f"--gpus-per-trial {value!r}: expected a share, such as 0.25, or auto") from None
    if share > 1 and not share.is_integer():
        whole = "expected a share below 1, such as 0.25, a whole number, or auto"
        raise UserError(f"--gpus-per-trial {str(value)!r}: {whole}")
    return float(_number("gpus_per_trial", share, 0))


def custom_resources(value: Any) -> dict[str, float]:
    """Return amounts of further Ray resources, from a mapping or from texts such as accelerator_type:A100=0.001."""
    texts = [f"{name}={amount}" for name, amount in value.items()] if isinstance(value, Mapping) else _several(value)
    found = {}
    for text in texts:
        name, _, amount = str(text).rpartition("=")
        try:
            number = float(amount)
        except ValueError:
            number = 0.0
        if not name or not number > 0 or not isfinite(number) or (number > 1 and number != int(number)):
            raise UserError(
                f"--resources {text!r}: expected NAME=N, N whole or below 1, such as accelerator_type:A100=0.001"
            )
        if name in OWN_OPTIONS:
            raise UserError(f"--resources {text!r}: use {OWN_OPTIONS[name]}")
        found[name] = number
    return found


# How each keyword is checked, and what field of RunOptions it becomes.
_CHECKS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "data_dir": ("data_dir", lambda value: _path("data_dir", value)),
    "track": ("trackers", lambda value: _names("track", value)),
    "address": ("address", lambda value: _text("address", value)),
    "autoscaling": ("autoscaling", lambda value: _flag("autoscaling", value)),
    "ship": ("ship", lambda value: _flag("ship", value)),
    "checkpoints": ("checkpoints", lambda value: _text("checkpoints", value)),
    "cpus_per_trial": ("cpus_per_trial", lambda value: _number("cpus_per_trial", value, 0.01)),
    "gpus_per_trial": ("gpus_per_trial", gpu_share),
    "resources": ("resources", custom_resources),
    "max_concurrent": ("max_concurrent", lambda value: _number("max_concurrent", value, 1, whole=True)),
    "max_failures": ("max_failures", lambda value: _number("max_failures", value, 0, whole=True)),
    "dashboard": ("dashboard", lambda value: _flag("dashboard", value)),
}


def run_options(
    selection: Selection,
    keywords: Mapping[str, Any],
    *,
    prefix: str = "",
    save_model: bool = False,
    supervised: bool = False,
) -> RunOptions:
    """Return how to run a selection; UserError says which keyword is unknown or which value is wrong.

    keywords: those of `RunKeywords`; None stands for the default. prefix: comes before the name of what is run;
    supervised: whether a parent process starts this one again if it dies.
    """
    fields = {}
    for keyword, value in keywords.items():
        if keyword not in _CHECKS:
            raise UserError(unknown("option", keyword, _CHECKS))
        if value is not None:
            name, check = _CHECKS[keyword]
            fields[name] = check(value)
    for keyword in ("autoscaling", "ship"):
        if fields.get(keyword) and not fields.get("address"):
            raise UserError(f"--{keyword}: goes with --address")
    return RunOptions(
        out=selection.out,
        study=prefix + Path(selection.name).stem,
        scale=selection.scale,
        modules=tuple(selection.modules),
        save_model=save_model,
        supervised=supervised,
        **fields,
    )


def check_verification(results: Path, trials: int, out: Path | None) -> None:
    """Raise UserError if trials of a results folder cannot be verified with these arguments."""
    if trials < 1:
        raise UserError(f"--trials {trials}: must be at least 1")
    if not (results / "trials").is_dir():
        raise UserError(f"{results}: holds no results; name a folder with trials, such as published")
    if out and out.resolve() == results.resolve():
        raise UserError(f"--out {out}: holds the results to be verified; name another folder")
