"""The vocabulary of study and space files. Quick to import: command lines need it for their options."""

from typing import Any, Literal, get_args

Label = str | int | float | bool | None
Axis = list[Any] | dict[str, dict[str, Any]]
Where = dict[str, list[Label]]  # axis -> labels; those that a scale does not have are passed over
Point = dict[str, Label]  # axis -> label
Show = Literal["value", "difference", "relative"]  # itself, or against the baseline: paired, in the same unit or in %
Mark = Literal["S", "I", "W"]  # the paper states a setting; it can be inferred; it is a weak guess
ScaleName = Literal["quick", "paper", "tiny"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)
SAMPLERS = ("tpe", "random", "cmaes")


def text_label(label: Label) -> str:
    """A label as users type and read it: 1.0 as 1, nothing as null, the rest as it is."""
    if label is None:
        return "null"
    return f"{label:g}" if isinstance(label, float) else str(label)


def short(axis: str) -> str:
    """The last part of an axis' name: alpha for data.alpha."""
    return axis.rpartition(".")[2].replace("_", " ")


def shown_as(label: str, show: Show) -> str:
    """A metric's label, or in words what is shown of it."""
    if show == "difference":
        return f"difference in {label}"
    return f"relative gain in {label.removesuffix(' (%)')}, %" if show == "relative" else label
