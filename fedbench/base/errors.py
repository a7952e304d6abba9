"""Errors that a user can mend: shown as one line, exit code 2."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Wrong input: the message says what is wrong, where, and what would be right.

    Deliberately not a `ValueError`: pydantic would swallow it inside a validator.
    """


class ConfigError(UserError):
    """A setting that is unknown, out of range or at odds with another one."""


def unknown(kind: str, name: object, options: Iterable[str]) -> str:
    """One line for a name that is not in `options`, with the nearest right spelling.

    >>> unknown("model", "mpl", ["mlp", "lenet5"])
    "unknown model 'mpl'; did you mean 'mlp'? Known: lenet5, mlp"
    """
    known = sorted(options)
    near = get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"unknown {kind} {str(name)!r}; {hint}Known: {', '.join(known)}"
