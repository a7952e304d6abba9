"""The device, and torch's process-wide switches: set for the time of a round, then put back."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fedbench.config import RunConfig
from fedbench.errors import UserError


def pick_device(name: str) -> torch.device:
    """The device of a run: `auto` is a GPU where torch can use one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"run.device = {name}: torch cannot use a GPU here; use run.device=cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"run.device = {name}: there are {torch.cuda.device_count()} GPUs here, counted from 0")
    return device


@contextmanager
def exact(run: RunConfig, device: torch.device) -> Iterator[None]:
    """Fixed thread count, full precision, deterministic algorithms, gradients on: whatever the process had before."""
    threads = torch.get_num_threads()
    deterministic, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    matmul, cudnn, bench = (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
    )
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic cuBLAS asks for
    try:
        torch.set_num_threads(run.threads)
        if device.type == "cuda":
            # Non-overlapping max-pools are deterministic in fact, yet flagged: warn, do not fail.
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cudnn.benchmark = False
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.backends.cuda.matmul.allow_tf32 = matmul
        torch.backends.cudnn.allow_tf32 = cudnn
        torch.backends.cudnn.benchmark = bench
