"""The device of a run, and contexts that set torch's process-wide state and restore it afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.deterministic

from fedbench.base.errors import UserError
from fedbench.config import RunConfig


def pick_device(name: str) -> torch.device:
    """The device of a run; `auto` is a GPU if torch can use one."""
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
    """Set the thread count, full precision, deterministic algorithms and gradients; then restore what was set before.

    In deterministic mode torch fills all memory that it hands out, which costs a kernel for every tensor, also in
    captured steps. No step reads memory that it has not written, so that is switched off.
    """
    threads = torch.get_num_threads()
    deterministic = torch.get_deterministic_debug_mode()
    backends: Any = torch.backends
    cpu, gpu = backends.mkldnn, backends.cudnn
    kernels = (backends.cuda.matmul, gpu.conv, gpu.rnn, cpu.matmul, cpu.conv, cpu.rnn)
    precisions, benchmark = [kernel.fp32_precision for kernel in kernels], gpu.benchmark
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic cuBLAS asks for
    try:
        torch.set_num_threads(run.threads)
        for kernel in kernels:
            kernel.fp32_precision = "ieee"  # neither TF32 nor bfloat16
        memory.fill_uninitialized_memory = False
        if device.type == "cuda":
            # Torch reports non-overlapping max-pools as nondeterministic although they are deterministic, so it must
            # warn rather than fail. `use_deterministic_algorithms` would import torch's compiler, which takes a second.
            torch.set_deterministic_debug_mode("warn")
            gpu.benchmark = False
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_num_threads(threads)
        for kernel, precision in zip(kernels, precisions, strict=True):
            kernel.fp32_precision = precision
        torch.set_deterministic_debug_mode(deterministic)
        gpu.benchmark = benchmark
        memory.fill_uninitialized_memory = filled


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators, which dropout and the like use, and restore them afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
