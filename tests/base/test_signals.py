"""Signals that libraries take for themselves are given back, and wait meanwhile."""

import subprocess
import sys

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
