"""Memory that was freed is given back to the system."""

import ctypes
import subprocess
import sys

import pytest
import torch

from fedbench.base.memory import out_of_memory, raise_out_of_memory

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


@pytest.mark.parametrize(
    "reason",
    [
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB",
        "AcceleratorError: CUDA error: out of memory",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "RuntimeError: GET was unable to find an engine to execute this computation",
    ],
)
def test_used_up_gpu_memory_is_recognised(reason: str) -> None:
    assert out_of_memory(reason)


@pytest.mark.parametrize(
    "reason",
    [
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "AcceleratorError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: operation not permitted when stream is capturing",
        "MemoryError: ",
    ],
)
def test_other_errors_are_not_taken_for_it(reason: str) -> None:
    assert not out_of_memory(reason)


def test_used_up_memory_is_found_behind_the_error_that_it_led_to() -> None:
    full = torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        try:
            try:
                raise full
            finally:
                raise RuntimeError("the capture was ended")
        except RuntimeError as error:
            raise_out_of_memory(error)
    assert caught.value is full
    raise_out_of_memory(RuntimeError("anything else"))
