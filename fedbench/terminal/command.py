"""What all command lines share: exit codes, errors as one line, Ctrl-C."""

import argparse
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from fedbench.base.errors import UserError
from fedbench.base.plugins import blame

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        """Print one line, exit with 2."""
        print(f"error: {message} ({self.prog} --help shows the options)", file=sys.stderr)
        sys.exit(WRONG_INPUT)


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a command line: a user's error is one line and exit code 2, the system's one line and 1, Ctrl-C is 130.

    What a user's own code raises is a user's error, too: the line says where in that code.
    """
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        code = main(sys.argv[1:])
    except UserError as error:
        print(f"error: {_one_line(error)}", file=sys.stderr)
        code = WRONG_INPUT
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except Exception as error:
        where = blame(error)
        if where:  # somebody's own code, named with --import
            print(f"error: {where}: {type(error).__name__}: {_one_line(error)}", file=sys.stderr)
        elif isinstance(error, OSError):  # a full disk, a vanished folder
            print(f"error: {_one_line(error)}", file=sys.stderr)
        else:
            raise
        code = WRONG_INPUT if where else FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    gc.freeze()  # or the last collection would walk through all of torch: half a second at every command's end
    sys.exit(code)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


@contextmanager
def deferred_interrupt(notice: str) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a flag (and a notice), so that a round can finish; the second one stops at once.

    Yields a function that tells whether Ctrl-C was pressed.
    """
    pressed = False

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        print(f"\n{notice}", file=sys.stderr, flush=True)

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)
