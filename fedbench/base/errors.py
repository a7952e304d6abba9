"""Errors that a user can fix: commands show them as one line and exit with code 2."""

from collections.abc import Iterable
from difflib import get_close_matches

from fedbench.base.text import printable, without_passwords

LONGEST_LINE = 2000  # characters; a list of all known names has several hundred


class UserError(Exception):
    """Invalid input. The message says what is wrong, where, and what would be right.

    It is not a subclass of `ValueError`, because pydantic would catch that inside a validator.
    """


class ConfigError(UserError):
    """A setting that is unknown, out of range or in conflict with another setting."""


def unknown(kind: str, name: object, options: Iterable[str]) -> str:
    """An error message for a name that is not in `options`, with the closest match.

    >>> unknown("model", "mpl", ["mlp", "lenet5"])
    "unknown model 'mpl'; did you mean 'mlp'? Known: lenet5, mlp"
    """
    known = sorted(options)
    near = get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"unknown {kind} {str(name)!r}; {hint}Known: {', '.join(known)}"


def one_line(error: object) -> str:
    """A message as a single line of limited length, without passwords and terminal control characters."""
    try:
        text = without_passwords(" ".join(str(error).split()))
    except Exception:  # raised by the __str__ of a plugin's exception class
        text = "its message cannot be shown"
    text = text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE // 2]} [...] {text[-LONGEST_LINE // 2 :]}"
    return printable(text)


def describe_error(error: BaseException) -> str:
    """The type and the message of an error, as a single line."""
    return one_line(f"{type(error).__name__}: {one_line(error)}")
