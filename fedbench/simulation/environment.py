"""The machine and the software versions of a run, on which the last bits of its results may depend."""

import os
import platform
import re
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedbench.config.identity import SIMULATION_VERSION

if TYPE_CHECKING:
    from fedbench.simulation.loop import Simulation

ANSWER_SECONDS = 10.0
DRIVER_FILE = Path("/proc/driver/nvidia/version")  # on Linux
MPS_PIPES = "/tmp/nvidia-mps"  # where the multi-process service is reached, unless a variable says otherwise
DRIVER = r"NVRM version:.*?\s(\d+\.\d+[.\d]*)\s"

Environment = dict[str, Any]


def environment(simulation: "Simulation") -> Environment:
    """Return versions, processor, device, threads and engine as plain data; for a GPU also those of its libraries."""
    device = simulation.device
    return {
        "fedbench": _version("fedbench"),
        "simulation_version": SIMULATION_VERSION,
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # a subclass of str, which a checkpoint cannot contain
        "numpy": _version("numpy"),
        "platform": platform.platform(),
        "host": platform.node(),
        "processor": processor(),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": simulation.config.run.threads,
        "engine": simulation.engine.name,
        **(gpu_versions() if device.type == "cuda" else {}),
    }


def environment_history(simulation: "Simulation") -> list[Environment]:
    """All environments in which a run was computed, in order; there are several if it was resumed elsewhere."""
    now = environment(simulation)
    return simulation.earlier if simulation.earlier[-1:] == [now] else [*simulation.earlier, now]


def gpu_versions() -> dict[str, str | None]:
    """Return the versions of CUDA (or ROCm) and cuDNN that torch was built with, and of the GPU's driver."""
    cudnn = torch.backends.cudnn.version()
    return {
        "cuda": torch.version.cuda or torch.version.hip,
        "cudnn": None if cudnn is None else str(cudnn),
        "driver": driver_version(),
    }


@cache
def driver_version() -> str | None:
    """Return the version of NVIDIA's driver, or None if it cannot be found."""
    with suppress(OSError):
        if found := re.search(DRIVER, DRIVER_FILE.read_text()):
            return found[1]
    with suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=ANSWER_SECONDS).stdout
        return next(iter(answer.split()), None)
    return None


def mps_running() -> bool:
    """Return whether NVIDIA's multi-process service runs on this machine: its control program then has an answer.

    In a container that program may be missing. A process there uses the service if it can see its control pipe.
    """
    try:
        command = ["nvidia-cuda-mps-control"]
        asked = subprocess.run(
            command, input="get_server_list\n", capture_output=True, text=True, timeout=ANSWER_SECONDS
        )
        return asked.returncode == 0
    except FileNotFoundError:
        return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or MPS_PIPES, "control").exists()
    except (OSError, subprocess.SubprocessError):
        return False


def processor() -> str:
    """The name of the processor, or its architecture if the system does not provide a name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
