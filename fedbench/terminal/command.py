"""What all command lines share: exit codes, errors as one line, Ctrl-C."""

import argparse
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from fedbench.base.errors import UserError, one_line, told
from fedbench.base.plugins import blame
from fedbench.base.signals import Interrupted, heeding, interrupt

DONE, FAILED, WRONG_INPUT = 0, 1, 2  # and 128 + its number for a signal, such as 130 for Ctrl-C

_command = False


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        """Print one line, exit with 2."""
        print(f"error: {one_line(message)} ({self.prog} --help shows the options)", file=sys.stderr)
        sys.exit(WRONG_INPUT)


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a command line: a user's error is one line and exit code 2, the system's one line and 1, Ctrl-C is 130.

    SIGTERM and SIGHUP are as gentle as Ctrl-C; their exit codes are 143 and 129.
    What a user's own code raises is a user's error, too: the line says where in that code.
    """
    global _command
    _command = sys.orig_argv[len(sys.orig_argv) - len(sys.argv) + 1 :] == sys.argv[1:]
    warnings.showwarning = lambda message, *_, **__: print_warning(str(message))
    try:
        with heeding():
            code = main(sys.argv[1:])
    except UserError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        code = WRONG_INPUT
    except KeyboardInterrupt as error:
        print("interrupted", file=sys.stderr)
        code = code_of(error)
    except BaseException as error:
        answered = _answered(error)
        if answered is None:
            raise
        code = answered
    gc.freeze()  # or the last collection would walk through all of torch: half a second at every command's end
    sys.exit(code)


def _answered(error: BaseException) -> int | None:
    """The exit code of an error that one line can tell of; None for any other, and for an end that was meant."""
    if where := blame(error):  # somebody's own code, named with --import
        print(f"error: {where}: {told(error)}", file=sys.stderr)
        return WRONG_INPUT
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    if isinstance(error, OSError):  # a full disk, a vanished folder
        print(f"error: {one_line(error)}", file=sys.stderr)
        return FAILED
    return None


def is_command() -> bool:
    """Whether this process is a command, and not a notebook, a script or a test that calls one."""
    return _command


def print_warning(text: str) -> None:
    """Print a warning."""
    print(f"warning: {one_line(text)}", file=sys.stderr, flush=True)


def code_of(stop: KeyboardInterrupt) -> int:
    """The exit code of a command that was asked to stop."""
    return (stop if isinstance(stop, Interrupted) else Interrupted()).code


@contextmanager
def deferred_interrupt(notice: str) -> Iterator[Callable[[], int]]:
    """Turn the first Ctrl-C into a flag (and a notice), so that a round can finish; the second one stops at once.

    Yields a function that tells the signal's number, 0 if there was none.
    """
    heard = 0

    def answer(number: int) -> None:
        nonlocal heard
        if heard:
            interrupt(number)
        heard = number
        print(f"\n{notice}", file=sys.stderr, flush=True)

    with heeding(answer):
        yield lambda: heard
