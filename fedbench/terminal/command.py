"""What all command lines share: exit codes, errors as one line, Ctrl-C."""

import argparse
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from fedbench.base.errors import UserError
from fedbench.base.plugins import blame
from fedbench.base.signals import Interrupted, heeding, interrupt

DONE, FAILED, WRONG_INPUT = 0, 1, 2  # and 128 + its number for a signal, such as 130 for Ctrl-C

_command = False


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        """Print one line, exit with 2."""
        print(f"error: {message} ({self.prog} --help shows the options)", file=sys.stderr)
        sys.exit(WRONG_INPUT)


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a command line: a user's error is one line and exit code 2, the system's one line and 1, Ctrl-C is 130.

    SIGTERM and SIGHUP are as gentle as Ctrl-C; their exit codes are 143 and 129.
    What a user's own code raises is a user's error, too: the line says where in that code.
    """
    global _command
    _command = sys.orig_argv[len(sys.orig_argv) - len(sys.argv) + 1 :] == sys.argv[1:]
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        with heeding():
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
    except KeyboardInterrupt as error:
        print("interrupted", file=sys.stderr)
        code = code_of(error)
    gc.freeze()  # or the last collection would walk through all of torch: half a second at every command's end
    sys.exit(code)


def is_command() -> bool:
    """Whether this process is a command, and not a notebook, a script or a test that calls one."""
    return _command


def print_warning(text: str) -> None:
    """Print a warning."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


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
