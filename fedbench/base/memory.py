"""Return freed memory to the system, and recognise errors of a GPU that is out of memory."""

import ctypes
import sys

# What torch, CUDA, cuBLAS and cuDNN say when the memory of a GPU is used up.
OUT_OF_MEMORY = (
    "OutOfMemoryError",
    "CUDA out of memory",
    "HIP out of memory",
    "CUDA error: out of memory",
    "HIP error: out of memory",
    "STATUS_ALLOC_FAILED",
    "unable to find an engine to execute this computation",
)
# cuBLAS says so if there is no memory for its handle, but also after any earlier error of the device.
MAYBE_OUT_OF_MEMORY = ("CUBLAS_STATUS_NOT_INITIALIZED",)


def out_of_memory(reason: str) -> bool:
    """Return whether the text of an error says that the memory of a GPU is used up."""
    return any(sign in reason for sign in OUT_OF_MEMORY)


def could_grow(share: float, reason: str) -> bool:
    """Return whether a trial that failed with a share of a GPU may succeed with more of it.

    That is so if its memory was too small, or may have been.
    """
    return 0 < share < 1 and (out_of_memory(reason) or any(sign in reason for sign in MAYBE_OUT_OF_MEMORY))


def raise_out_of_memory(error: BaseException) -> None:
    """Raise the error that says that the memory of a GPU is used up, if it is an error or one of its causes.

    A capture that is interrupted by such an error raises another one as it ends.
    """
    each: BaseException | None = error
    while each is not None:
        if out_of_memory(f"{type(each).__name__}: {each}"):
            raise each
        each = each.__cause__ or each.__context__


def return_memory() -> None:
    """Give freed memory back to the system. Glibc keeps it otherwise; on other systems nothing happens."""
    if trim := getattr(ctypes.CDLL(None) if sys.platform == "linux" else None, "malloc_trim", None):
        trim(0)
