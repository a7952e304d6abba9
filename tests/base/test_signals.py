"""Signals that libraries take for themselves are given back, and wait meanwhile; none is lost."""

import contextlib
import signal
import subprocess
import sys

import pytest

from fedbench.base.signals import STOPS, Interrupted, heeding

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
