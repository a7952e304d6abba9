"""What to run and how, as commands and calls from Python state it, checked. Quick to import."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypedDict

from fedbench.base.errors import UserError, unknown
from fedbench.base.files import RESULTS
from fedbench.specs.names import MOST_SEEDS, SCALES, USUAL_MOST, text_labels
from fedbench.tune.options import RunOptions

SEARCH_PREFIX = "search-"  # before a search's name where studies are named, too
FLAGS = ("dry_run", "rehearse", "keep_going", "fresh", "strict")  # of a request; other keywords are options
OWN_OPTIONS = {"CPU": "--cpus-per-trial", "GPU": "--gpus-per-trial"}  # Ray resources that have an option of their own


class SelectKeywords(TypedDict, total=False):
    """Keywords that select trials of a study or a search space, and change them.

    changes, or set: base settings to change, with dotted keys or nested, such as {"rounds": 20}; only: points of the
    axes, such as {"data.alpha": [100, 0.1]}, or methods of a search; seeds: replace those of the file; modules: names
    or files of modules with methods and the like of your own, imported before anything is read.
    """

    changes: Mapping[str, Any] | None
    set: Mapping[str, Any] | None
    only: Mapping[str, Any] | None
    seeds: str | int | Iterable[int] | None
    modules: str | Sequence[str]


class RunKeywords(SelectKeywords, total=False):
    """Keywords of `fedbench.run` and `fedbench.search` that say how trials are run; commands have an option for each.

    dry_run: only print what would be run, and its cost; rehearse: whether to run one round of each kind of trial on
    tiny data first, as --try does (None: where code from outside of fedbench is used); keep_going: run all trials even
    if the first ones all fail alike; fresh: discard what is stored; strict: fail if anything failed or diverged;
    data_dir: the folder of data sets; track: names of trackers; address: HOST:PORT of a Ray cluster, or auto;
    autoscaling: wait for nodes that the cluster adds on demand; ship: send fedbench itself to the nodes; checkpoints: a
    URI where checkpoints are stored, too; cpus_per_trial, gpus_per_trial: resources of each trial, auto or None for as
    many trials on a GPU as fit; resources: further Ray resources, by name or as NAME=N; max_concurrent: trials at a
    time; max_failures: how often a trial whose process died is restarted; dashboard: start Ray's dashboard.
    """

    dry_run: bool
    rehearse: bool | None
    keep_going: bool
    fresh: bool
    strict: bool
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


class StudyKeywords(RunKeywords, total=False):
    """Keywords of `fedbench.run` alone, beside those of every run.

    decide: add seeds until claims and comparisons with the baseline are decided; most_seeds: at most so many (5, 8, 12
    or 20; by default 12); budget: hours after which no further look ends.
    """

    decide: bool
    most_seeds: int | None
    budget: float | None


@dataclass(frozen=True)
class Selection:
    """Which trials of a study or a search space are meant, and the folder of their results.

    name: a built-in name or a file; changes: nested base settings that replace those of the file; only: labels to
    pick, by axis; seeds: replace those of the file.
    """

    name: str
    scale: str = "quick"
    out: Path = RESULTS
    changes: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seeds: Sequence[int] | None = None
    modules: Sequence[str] = ()


@dataclass(frozen=True)
class Request:
    """Which trials of a study to run, or which search, and how; for the flags and the budget see `StudyKeywords`.

    most_seeds: run seeds until everything is decided, but at most so many; None leaves it to the study file.
    """

    selection: Selection
    options: RunOptions
    search: bool = False
    dry_run: bool = False
    rehearse: bool | None = None
    keep_going: bool = False
    fresh: bool = False
    strict: bool = False
    most_seeds: int | None = None
    budget: float | None = None


def select(
    name: str | Path, scale: str = "quick", out: str | Path = RESULTS, keywords: Mapping[str, Any] | None = None
) -> Selection:
    """Return a selection by the values of `SelectKeywords`; UserError says which one is unknown or wrong."""
    given = _given(keywords or {}, SelectKeywords.__annotations__)
    if scale not in SCALES:
        raise UserError(unknown("scale", scale, SCALES))
    for keyword in {"changes", "set", "only"} & given.keys():
        if not isinstance(given[keyword], Mapping):
            raise UserError(f"{keyword} = {given[keyword]!r}: must be a mapping, such as {{'data.alpha': 0.1}}")
    return Selection(
        str(name),
        scale,
        _path("out", out),
        _settings({**given.get("changes", {}), **given.get("set", {})}),
        {axis: text_labels(labels) for axis, labels in given.get("only", {}).items()},
        _seeds(given["seeds"]) if "seeds" in given else None,
        _names("modules", given.get("modules", ())),
    )


def request(
    name: str | Path,
    scale: str,
    out: str | Path,
    keywords: Mapping[str, Any],
    *,
    save_model: bool = False,
    search: bool = False,
    supervised: bool = False,
) -> Request:
    """Return what to run and how, by the values of `StudyKeywords`; UserError says which one is unknown or wrong.

    None stands for the default; save_model: store final models; search: whether this is a search; supervised: whether
    a parent process starts this one again if it dies.
    """
    known = (RunKeywords if search else StudyKeywords).__annotations__
    if others := sorted((keywords.keys() & StudyKeywords.__annotations__.keys()) - known.keys()):
        raise UserError(f"{others[0]}: is for studies, not for searches")
    given = _given({**keywords, "save_model": save_model}, [*known, "save_model"])
    selection = select(name, scale, out, {key: given[key] for key in SelectKeywords.__annotations__ if key in given})
    checked = {keyword: check(keyword, given[keyword]) for keyword, check in _CHECKS.items() if keyword in given}
    for keyword in ("autoscaling", "ship"):
        if checked.get(keyword) and not checked.get("address"):
            raise UserError(f"--{keyword}: goes with --address")
    flags = {key: checked.pop(key) for key in (*FLAGS, "most_seeds", "budget") if key in checked}
    if checked.pop("decide", False):
        flags.setdefault("most_seeds", USUAL_MOST)
        if selection.seeds:
            raise UserError("--seeds: goes without --decide, which takes seeds in a fixed order")
    elif "most_seeds" in flags:
        raise UserError("--most-seeds: goes with --decide")
    options = RunOptions(
        out=selection.out,
        study=(SEARCH_PREFIX if search else "") + Path(selection.name).stem,
        scale=selection.scale,
        modules=tuple(selection.modules),
        trackers=checked.pop("track", ()),
        supervised=supervised,
        **checked,
    )
    return Request(selection, options, search, **flags)


def _given(keywords: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the keywords that have a value; UserError for one that is not known."""
    for keyword in keywords:
        if keyword not in known:
            raise UserError(unknown("option", keyword, [*known, "scale", "out"]))
    return {keyword: value for keyword, value in keywords.items() if value is not None}


def _settings(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings nested, with plain Python values."""
    if not changes:
        return {}
    import json

    from fedbench.base.settings import nest, plain

    for key, value in changes.items():
        try:
            json.dumps(plain(value))
        except (TypeError, ValueError):
            raise UserError(f"set: {key} = {value!r}: must be made of numbers, words, lists and mappings") from None
    return nest(plain(changes), "set")


def _seeds(seeds: Any) -> list[int]:
    texts = seeds.split(",") if isinstance(seeds, str) else [str(seed) for seed in _several(seeds)]
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        raise UserError(f"--seeds {','.join(texts)!r}: expected whole numbers, such as 8,9,10") from None
    if len({*numbers}) < len(numbers):
        twice = max(numbers, key=numbers.count)
        raise UserError(f"--seeds {','.join(texts)}: {twice} stands twice; name it once")
    return numbers


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Path) else [value]


def _names(keyword: str, value: Any) -> tuple[str, ...]:
    return tuple(_text(keyword, name) for name in _several(value))


def _text(keyword: str, value: Any) -> str:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise UserError(f"{keyword} = {value!r}: must be one value, and not empty")
    return str(value)


def _path(keyword: str, value: Any) -> Path:
    if value == "":
        raise UserError(f"{keyword}: name a folder")
    return Path(_text(keyword, value))


def check_flag(keyword: str, value: Any) -> bool:
    """Return the value of a keyword that must be True or False."""
    if not isinstance(value, bool):
        raise UserError(f"{keyword} = {value!r}: must be True or False")
    return value


def _number(keyword: str, value: Any, least: float, *, whole: bool = False) -> Any:
    option = f"--{keyword.replace('_', '-')}"
    if isinstance(value, bool) or not isinstance(value, Real) or (whole and value % 1 != 0):
        raise UserError(f"{option} {value!r}: must be a {'whole ' if whole else ''}number")
    number = int(float(value)) if whole else float(value)
    if not number >= least:
        raise UserError(f"{option} {number}: must be at least {least}")
    return number


def _most_seeds(keyword: str, value: Any) -> int:
    if value not in MOST_SEEDS or isinstance(value, bool):
        raise UserError(f"--most-seeds {value!r}: must be one of {', '.join(map(str, MOST_SEEDS))}")
    return int(value)


def _gpu_share(keyword: str, value: Any) -> float | None:
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
    return float(_number(keyword, share, 0))


def _resources(keyword: str, value: Any) -> dict[str, float]:
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
            example = "N whole or below 1, such as accelerator_type:A100=0.001"
            raise UserError(f"--resources {text!r}: expected NAME=N, {example}")
        if name in OWN_OPTIONS:
            raise UserError(f"--resources {text!r}: use {OWN_OPTIONS[name]}")
        found[name] = number
    return found


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys((*FLAGS, "save_model", "autoscaling", "ship", "dashboard", "decide"), check_flag),
    **dict.fromkeys(("address", "checkpoints"), _text),
    "data_dir": _path,
    "track": _names,
    "cpus_per_trial": partial(_number, least=0.01),
    "gpus_per_trial": _gpu_share,
    "resources": _resources,
    "max_concurrent": partial(_number, least=1, whole=True),
    "max_failures": partial(_number, least=0, whole=True),
    "most_seeds": _most_seeds,
    "budget": partial(_number, least=0),
}


def check_verification(results: Path, trials: int, out: Path | None) -> None:
    """Raise UserError if trials of a results folder cannot be verified with these arguments."""
    if trials < 1:
        raise UserError(f"--trials {trials}: must be at least 1")
    if not (results / "trials").is_dir():
        raise UserError(f"{results}: holds no results; name a folder with trials, such as published")
    if out and out.resolve() == results.resolve():
        raise UserError(f"--out {out}: holds the results to be verified; name another folder")
