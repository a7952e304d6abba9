"""Memory that was freed is given back to the system."""

import ctypes
import subprocess
import sys

import pytest

# In a process of its own: in a large one a new thread may reuse memory that earlier work has left behind.
FREED_BY_A_THREAD = """
import threading

import psutil

from fedbench.base.memory import return_memory

BLOCK, COUNT = 100_000, 3_000  # smaller than what malloc maps, and unmaps, as a block of its own
resident, kept = psutil.Process().memory_info, []


def work():
    blocks = [b"x" * BLOCK for _ in range(COUNT)]
    kept.extend(blocks[99::100])  # a trial, too, leaves small things behind among its tensors


before = resident().rss
thread = threading.Thread(target=work)
thread.start()
thread.join()
freed = resident().rss - before
return_memory()
print(freed / (BLOCK * COUNT), (resident().rss - before) / (BLOCK * COUNT))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library has no malloc_trim"
)
def test_memory_that_a_thread_has_freed_is_given_back() -> None:
    command = [sys.executable, "-c", FREED_BY_A_THREAD]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    before, after = map(float, done.stdout.split())
    assert before > 0.8, "malloc gives it back by itself: there is nothing to do"
    assert after < 0.2
