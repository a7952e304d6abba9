"""Text in a table on the screen."""

from rich.markup import escape

from fedbench.base.text import printable


def cell(text: object) -> str:
    """A text as it stands: neither rich nor the terminal finds a command in it."""
    return escape(printable(str(text)))
