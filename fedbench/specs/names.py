"""The vocabulary of study and space files. Quick to import: command lines need it for their options."""

import hashlib
from collections.abc import Iterable
from typing import Any, Literal, get_args

from fedbench.base.files import safe_name

Label = str | int | float | bool | None
Axis = list[Any] | dict[str, dict[str, Any]]
Where = dict[str, list[Label]]  # axis -> labels; those that a scale does not have are passed over
Point = dict[str, Label]  # axis -> label
Show = Literal["value", "difference", "relative"]  # itself, or against the baseline: paired, in the same unit or in %
Beside = Literal["spread", "interval", "both"]  # of a mean over seeds: its standard deviation, its 95 % interval
Mark = Literal["S", "I", "W"]  # the paper states a setting; it can be inferred; it is a weak guess
ScaleName = Literal["quick", "desk", "paper", "tiny"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)
SAMPLERS = ("tpe", "random", "cmaes")
MostSeeds = Literal[5, 8, 12, 20]
MOST_SEEDS: tuple[int, ...] = get_args(MostSeeds)
USUAL_MOST = 12  # seeds of a study that is run until it is decided
LONGEST_VARIANT = 80  # characters of a folder's name


def text_label(label: Label) -> str:
    """Return a label as users type and read it: 1.0 as 1, None as null, others as they are."""
    if label is None:
        return "null"
    return f"{label:g}" if isinstance(label, float) else str(label)


def as_number(text: str) -> float | None:
    """Return the number in a text; None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None


def text_labels(labels: Any) -> list[str]:
    """One label, or several, as users type them."""
    several = isinstance(labels, Iterable) and not isinstance(labels, str)
    return [text_label(label) for label in (labels if several else [labels])]


def short(axis: str) -> str:
    """The last part of an axis' name: alpha for data.alpha."""
    return axis.rpartition(".")[2].replace("_", " ")


def named(axis: str, label: Label) -> str:
    """A point of an axis: a word as it is, all else with the name of its axis (alpha 0.1)."""
    return label if isinstance(label, str) else f"{short(axis)} {text_label(label)}"


def heads(axes: Iterable[str]) -> list[str]:
    """Return the heads for axes in a table: their short names, or full names where two would be the same."""
    names = list(axes)
    brief = [short(axis) for axis in names]
    return [word if brief.count(word) == 1 else axis for axis, word in zip(names, brief, strict=True)]


def variant_name(words: Iterable[str]) -> str:
    """A short name for what options changed, fit for a folder; empty if they changed nothing."""
    name = "+".join(map(safe_name, words))
    if len(name) <= LONGEST_VARIANT:
        return name
    return f"{name[: LONGEST_VARIANT - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def shown_as(label: str, show: Show) -> str:
    """Return the label of a metric, or of its difference or relative gain."""
    if show == "difference":
        return f"difference in {label}"
    return f"relative gain in {label.removesuffix(' (%)')}, %" if show == "relative" else label
