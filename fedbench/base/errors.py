"""Errors that a user can mend: shown as one line, exit code 2."""

from collections.abc import Iterable
from difflib import get_close_matches

from fedbench.base.text import printable, without_passwords

LONGEST_LINE = 2000  # characters; lists of all that is known have several hundred


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


def one_line(error: object) -> str:
    """A message as one line, whatever users wrote: no breaks, no passwords, nothing that a terminal obeys, an end."""
    try:
        text = without_passwords(" ".join(str(error).split()))
    except Exception:  # of somebody's own class
        text = "it cannot say what"
    text = text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE // 2]} [...] {text[-LONGEST_LINE // 2 :]}"
    return printable(text)


def told(error: BaseException) -> str:
    """An error by its kind and what it says."""
    return one_line(f"{type(error).__name__}: {one_line(error)}")
