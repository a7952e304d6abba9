"""What commands and calls from Python print: warnings, progress and tables."""

import sys

from fedbench.base.errors import one_line
from fedbench.base.text import say


def print_warning(text: str) -> None:
    """Print a warning to standard error as one line."""
    say(f"warning: {one_line(text)}", sys.stderr)
