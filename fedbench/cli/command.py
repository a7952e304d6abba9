"""What all commands share: exit codes, errors as one line, Ctrl-C."""

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
from typing import Any, NamedTuple, NoReturn

from fedbench.base.errors import UserError, describe_error, one_line
from fedbench.base.plugins import blame
from fedbench.base.signals import Interrupted, interrupt, stop_signals
from fedbench.base.text import say, without_passwords
from fedbench.console import print_warning

DONE, FAILED, WRONG_INPUT = 0, 1, 2  # and 128 + its number for a signal, such as 130 for Ctrl-C

_command = False


class Command(NamedTuple):
    """A command: its line in the help and an example, its description, and what adds its options and runs it.

    run: gets the parsed options and the arguments as they were typed; returns the exit code.
    """

    purpose: str
    example: str
    description: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Sequence[str]], int]


class Parser(argparse.ArgumentParser):
    """An argument parser that accepts no abbreviations, and prints its errors as one line, like all others."""

    def __init__(self, **how: Any) -> None:
        super().__init__(allow_abbrev=False, **how)

    def error(self, message: str) -> NoReturn:
        """Print one line, exit with 2."""
        say(f"error: {one_line(message)} ({self.prog} --help shows the options)", sys.stderr)
        sys.exit(WRONG_INPUT)


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a command and exit. Wrong input is one line and exit code 2, an error of the system one line and code 1.

    Ctrl-C is exit code 130; SIGTERM and SIGHUP are handled like Ctrl-C, with codes 143 and 129. What users' own code
    raises counts as wrong input, too: the line says where in that code.
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
        known = _reported(error)
        if known is None:
            raise
        code = known
    gc.freeze()  # or the last collection would walk through all of torch: half a second at every command's end
    sys.exit(code)


def _reported(error: BaseException) -> int | None:
    """Print an expected kind of error and return its exit code; None for any other, and for SystemExit."""
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
    """Return whether this process is a command, rather than a notebook, script or test that calls one."""
    return _command


def invocation(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the words that started a command, without its arguments, such as .venv/bin/python -m fedbench.study.

    If this process is no command, return words that would start it with the same interpreter.
    """
    end = len(sys.orig_argv) - len(arguments)
    if not is_command() or sys.orig_argv[end:] != list(arguments):
        return [sys.executable, "-m", f"fedbench.{name}"]
    words = sys.orig_argv[:end]
    script = sys.argv[0]
    if words[1:2] == [script] and os.access(script, os.X_OK):  # the system found the interpreter in its first line
        name = Path(script).name
        words[:2] = [name if shutil.which(name) == script else script]
    return words


def command_line(words: Sequence[str]) -> str:
    """Return a command as a shell reads it, without passwords of addresses."""
    return shlex.join(map(without_passwords, words))


def code_of(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a command that a signal has stopped."""
    return (stop if isinstance(stop, Interrupted) else Interrupted()).code


@contextmanager
def deferred_interrupt(notice: str) -> Iterator[Callable[[], int]]:
    """Let a round finish after the first Ctrl-C, of which a notice is printed; the second one stops at once.

    Yields a function that returns the number of the first signal, 0 if there was none.
    """
    received = 0

    def handle(number: int) -> None:
        nonlocal received
        if received:
            interrupt(number)
        received = number
        say(f"\n{notice}", sys.stderr)

    with stop_signals(handle):
        yield lambda: received
