"""A worker on a GPU: its device, the memory that it may take, and captures that fail."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import ray
import torch

from fedbench.simulation.engines import CaptureFailed
from fedbench.store.memory import workspace_clearing
from fedbench.tune.shares import device_number, memory_fraction

MOST_TRIALS = 50  # of a process on a GPU, unless torch can give back all memory of a trial


@contextmanager
def failed_captures_raised() -> Iterator[None]:
    """End a run whose steps cannot be captured: torch may be left in a state in which it cannot go on."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CaptureFailed)
        yield


def assigned_device(share: float, context: float) -> str:
    """Return the device that Ray assigned to this trial, and cap the trial's memory to its share.

    A GPU that torch cannot use is an error. context: bytes that CUDA itself takes for a process.
    """
    gpus = ray.get_gpu_ids()
    if not gpus:
        return "cpu"
    if not torch.cuda.is_available():
        raise RuntimeError(
            "Ray assigned a GPU that torch cannot use; install a CUDA build of torch or --gpus-per-trial 0"
        )
    device = device_number(str(gpus[0]), os.environ)
    if share < 1:
        memory = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(memory_fraction(share, context, memory), device)
    return f"cuda:{device}"


def worn_out(trials: int) -> bool:
    """Return whether a process that has run so many trials on a GPU should end, since cuBLAS may keep more and more."""
    return torch.cuda.is_initialized() and workspace_clearing() is None and trials >= MOST_TRIALS
