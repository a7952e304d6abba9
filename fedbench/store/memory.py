"""The most memory that a run has taken, of its process and of its GPU, and how a process gives it back."""

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from fedbench.base.memory import return_memory


def reset_peak_memory(device: torch.device) -> None:
    """Start measuring peak memory from now on, if the system allows it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # not Linux, or not allowed: the peak is then that of the whole process
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory(device: torch.device) -> dict[str, int | None]:
    """Return the peak bytes of the process's resident memory and, on a GPU, those that torch allocated and reserved."""
    gpu = device.type == "cuda"
    return {
        "peak_memory_bytes": _peak_resident(),
        "peak_gpu_memory_bytes": torch.cuda.max_memory_allocated(device) if gpu else None,
        "peak_gpu_reserved_bytes": torch.cuda.max_memory_reserved(device) if gpu else None,
    }


def release_memory() -> None:
    """Give back the memory that a trial has left in this process, also that of the GPU, which others share."""
    gc.collect()
    if torch.cuda.is_initialized():
        if clear := workspace_clearing():
            clear()
        torch.cuda.empty_cache()
    return_memory()


def workspace_clearing() -> Callable[[], None] | None:
    """Return torch's function that gives back cuBLAS's workspaces; None before the version that has it."""
    return getattr(torch.cuda, "clear_cublas_workspaces", None)


def _peak_resident() -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource  # not on Windows
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
