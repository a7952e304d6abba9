"""Signals that libraries take for themselves are given back, and wait meanwhile; none is lost."""

import contextlib
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator

import pytest

from fedbench.base.signals import LOCKS_OF_IMPORTS, STOPS, Interrupted, heeding

SCRIPT = """
import ctypes, os, signal, threading
from fedbench.base.signals import Interrupted, delay, heeding, kept

setsig = ctypes.pythonapi.PyOS_setsig
sent = threading.Event()

def library():
    delay()  # as its starter does
    with kept():
        setsig(signal.SIGTERM, None)  # the default: the end of the process
        os.kill(os.getpid(), signal.SIGTERM)
    sent.set()
    threading.Event().wait()

with heeding():
    delay()
    threading.Thread(target=library, daemon=True).start()
    sent.wait()
    try:
        delay(until_told=False)
        threading.Event().wait(60)
    except Interrupted as stop:
        print(stop.code)
"""


def test_a_signal_that_a_library_takes_waits_and_is_then_heard_as_before() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr, result.returncode) == ("143\n", "", 0)


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_that_a_library_took_for_its_own_error_stops_before_anything_new_begins(number: int) -> None:
    begun = False
    with pytest.raises(Interrupted) as stop, heeding():
        with contextlib.suppress(BaseException):
            signal.raise_signal(number)
        with heeding(lambda _: None):
            begun = True
    assert stop.value.code == 128 + number
    assert not begun


def test_a_signal_that_was_answered_in_another_way_stops_nothing() -> None:
    heard = list[int]()
    with heeding(heard.append):
        signal.raise_signal(signal.SIGINT)
        with heeding():
            pass
    assert heard == [signal.SIGINT]


class Held:
    """Something that can be let go."""


@contextlib.contextmanager
def stopped_by(number: int, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A block that a signal ends at once, and not when it is over, without a word."""
    begin = time.monotonic()
    with pytest.raises(Interrupted) as stop, heeding():
        yield
        time.sleep(10)
    assert stop.value.code == 128 + number
    assert time.monotonic() - begin < 5
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_where_python_ignores_exceptions_comes_again(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    held = Held()
    reference = weakref.ref(held, lambda _: signal.raise_signal(number))
    with stopped_by(number, capsys):
        del held
        assert reference() is None


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_never_stops_python_while_it_handles_the_locks_of_imports(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    reached = list[bool]()
    locking = compile("signal.raise_signal(number); reached.append(True)", LOCKS_OF_IMPORTS, "exec")
    with stopped_by(number, capsys):
        exec(locking, {"signal": signal, "number": number, "reached": reached})
    assert reached


def test_the_file_of_the_locks_of_imports_is_pythons() -> None:
    assert sys.modules["_frozen_importlib"]._get_module_lock.__code__.co_filename == LOCKS_OF_IMPORTS


def test_other_errors_that_python_ignores_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[object]()
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: told.append(ignored.exc_value))
    error, held = ValueError("x"), Held()

    def fail(_: object) -> None:
        raise error

    reference = weakref.ref(held, fail)
    with heeding():
        del held
    assert reference() is None
    assert told == [error]
    assert sys.unraisablehook.__name__ == "<lambda>"
