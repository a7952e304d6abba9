"""What Linux does for a process."""

import ctypes
import sys
import threading

import psutil
import pytest

from fedbench.base.linux import return_memory

BLOCK, COUNT = 100_000, 3_000  # below what malloc takes from the system, and gives back to it, as a piece of its own


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library has no malloc_trim"
)
def test_memory_that_a_thread_has_freed_is_given_back() -> None:
    resident, kept = psutil.Process().memory_info, list[bytes]()

    def work() -> None:
        blocks = [b"x" * BLOCK for _ in range(COUNT)]
        kept.extend(blocks[99::100])  # what a model's caches are to its tensors

    before = resident().rss
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert resident().rss - before > 0.8 * BLOCK * COUNT, "malloc gives it back by itself: there is nothing to do"
    return_memory()
    assert resident().rss - before < 0.2 * BLOCK * COUNT
