"""What all command lines share: exit codes, errors as one line, Ctrl-C."""

import argparse
import gc
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from fedbench.base.errors import UserError, describe_error, one_line
from fedbench.base.plugins import blame
from fedbench.base.signals import Interrupted, interrupt, stop_signals
from fedbench.base.text import say, without_passwords

DONE, FAILED, WRONG_INPUT = 0, 1, 2  # and 128 + its number for a signal, such as 130 for Ctrl-C

_command = False


class Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations, and whose errors are one line, like all others."""

    def __init__(self, **how: Any) -> None:
        super().__init__(allow_abbrev=False, **how)

    def error(self, message: str) -> NoReturn:
        """Print one line, exit with 2."""
        say(f"error: {one_line(message)} ({self.prog} --help shows the options)", sys.stderr)
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
        with stop_signals():
            code = main(sys.argv[1:])
    except UserError as error:
        say(f"error: {one_line(error)}", sys.stderr)
        code = WRONG_INPUT
    except KeyboardInterrupt as error:
        say("interrupted", sys.stderr)
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
        say(f"error: {where}: {describe_error(error)}", sys.stderr)
        return WRONG_INPUT
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    if isinstance(error, OSError):  # a full disk, a vanished folder
        say(f"error: {one_line(error)}", sys.stderr)
        return FAILED
    return None


def is_command() -> bool:
    """Whether this process is a command, and not a notebook, a script or a test that calls one."""
    return _command


def invocation(module: str, arguments: Sequence[str]) -> list[str]:
    """The words that started this command, without its arguments: ".venv/bin/python -m fedbench.study", say.

    For a call from Python they are those of the command that does the same with the same interpreter.
    """
    end = len(sys.orig_argv) - len(arguments)
    if not is_command() or sys.orig_argv[end:] != list(arguments):
        return [sys.executable, "-m", module]
    words = sys.orig_argv[:end]
    script = sys.argv[0]
    if words[1:2] == [script] and os.access(script, os.X_OK):  # the system found the interpreter in its first line
        name = Path(script).name
        words[:2] = [name if shutil.which(name) == script else script]
    return words


def command_line(words: Sequence[str]) -> str:
    """A command as a shell reads it; passwords in addresses are not shown."""
    return shlex.join(map(without_passwords, words))


def print_warning(text: str) -> None:
    """Print a warning."""
    say(f"warning: {one_line(text)}", sys.stderr)


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
        say(f"\n{notice}", sys.stderr)

    with stop_signals(answer):
        yield lambda: heard
