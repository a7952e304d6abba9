"""Text for the terminal: without passwords and control characters."""

import os
import re
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

HIDDEN = "***"
# In an address, user:password@. A password may contain a slash that should have been escaped; a user alone may not.
IN_ADDRESS = re.compile(r"(?<=://)(?:[^\s/@:]*:\S+|[^\s/@]+)(?=@)")
IN_QUERY = re.compile(r"(?<=[?&])([^\s=&]*(?:key|token|secret|password|credential|sig)[^\s=&]*=)[^\s&]+", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """Return a text in which no address shows a user, a password, or a secret of its query.

    >>> without_passwords("s3://me:secret@bucket/runs?region=x&access_key=abc")
    's3://***@bucket/runs?region=x&access_key=***'
    """
    return IN_QUERY.sub(rf"\g<1>{HIDDEN}", IN_ADDRESS.sub(HIDDEN, text))


def printable(text: str) -> str:
    r"""Return a text with the characters spelled out that a terminal would interpret, or that would hide others.

    Line breaks stay.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable() or character == "\n" or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def say(text: object, stream: TextIO | None = None) -> None:
    """Print a line at once, by default to standard output, without control characters."""
    print(printable(str(text)), file=stream or sys.stdout, flush=True)


@contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """Keep what libraries written in C print off the screen; yield a function that returns it."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as stream:
        screen = os.dup(2)
        os.dup2(stream.fileno(), 2)
        try:
            yield lambda: os.pread(stream.fileno(), 2**20, 0).decode(errors="replace")
        finally:
            os.dup2(screen, 2)
            os.close(screen)
