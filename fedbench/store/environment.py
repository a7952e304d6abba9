"""The machine and the versions behind a run: what may make its bytes differ from another's."""

import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from fedbench.config.identity import SIMULATION_VERSION
from fedbench.simulation import Simulation


def environment(simulation: Simulation) -> dict[str, Any]:
    """Versions, processor, device, threads and engine."""
    device = simulation.device
    return {
        "fedbench": _version("fedbench"),
        "simulation_version": SIMULATION_VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": _version("numpy"),
        "platform": platform.platform(),
        "host": platform.node(),
        "processor": processor(),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": simulation.config.run.threads,
        "engine": simulation.engine.name,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """The name of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def reset_peak_memory(device: torch.device) -> None:
    """Start counting peak memory from now, where the system lets us."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # not Linux, or not allowed: the peak is then that of the whole process
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory(device: torch.device) -> dict[str, int | None]:
    """Peak bytes of the process's resident memory and, on a GPU, of torch's: in tensors, and reserved in all."""
    gpu = device.type == "cuda"
    return {
        "peak_memory_bytes": _peak_resident(),
        "peak_gpu_memory_bytes": torch.cuda.max_memory_allocated(device) if gpu else None,
        "peak_gpu_reserved_bytes": torch.cuda.max_memory_reserved(device) if gpu else None,
    }


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
