"""A process that shares a GPU: its device, the memory that it may take, and captures that fail."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from fedbench.simulation.engines import CaptureFailed
from fedbench.store.memory import workspace_clearing

VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
MOST_TRIALS = 50  # of a process on a GPU, unless torch can give back all memory of a trial


@contextmanager
def failed_captures_raised() -> Iterator[None]:
    """End a run whose steps cannot be captured: torch may be left in a state in which it cannot go on."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CaptureFailed)
        yield


def assigned_device(gpus: Sequence[object], share: float, context: float) -> str:
    """Return the device of a trial to which Ray has assigned some GPUs, and cap the trial's memory to its share.

    A GPU that torch cannot use is an error. context: bytes that CUDA itself takes for a process.
    """
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


def memory_fraction(share: float, context: float, gpu: float) -> float:
    """Return the part of a GPU's memory that torch may reserve for a trial: its share without what CUDA itself takes.

    context, gpu: bytes that CUDA takes for a process, and of the GPU.
    """
    return max(0.0, share - context / gpu)


def device_number(gpu: str, environment: Mapping[str, str]) -> int:
    """Return the number by which torch knows a GPU that Ray has assigned to this process.

    Torch counts the GPUs that the process may see. Usually Ray lets it see only its own, but with
    RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES it sees all of them.
    """
    lists = [[name.strip() for name in environment.get(variable, "").split(",")] for variable in VISIBLE]
    for seen in lists:
        if gpu in seen:
            return seen.index(gpu)
    return int(gpu) if gpu.isdigit() and not any(map(any, lists)) else 0


def worn_out(trials: int) -> bool:
    """Return whether a process that has run so many trials on a GPU should end, since cuBLAS may keep more and more."""
    return torch.cuda.is_initialized() and workspace_clearing() is None and trials >= MOST_TRIALS


def smallest_gpu() -> float:
    """Return the bytes of this machine's smallest GPU; 0 if torch can use none."""
    cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return min((float(card.total_memory) for card in cards), default=0.0)
