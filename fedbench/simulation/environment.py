"""The machine and the versions behind a run: what may make its bytes differ from another's."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedbench.config.identity import SIMULATION_VERSION

if TYPE_CHECKING:
    from fedbench.simulation.loop import Simulation

Environment = dict[str, Any]


def environment(simulation: "Simulation") -> Environment:
    """Versions, processor, device, threads and engine, as plain data."""
    device = simulation.device
    return {
        "fedbench": _version("fedbench"),
        "simulation_version": SIMULATION_VERSION,
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # of a class of its own, which a checkpoint could not hold
        "numpy": _version("numpy"),
        "platform": platform.platform(),
        "host": platform.node(),
        "processor": processor(),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": simulation.config.run.threads,
        "engine": simulation.engine.name,
    }


def route(simulation: "Simulation") -> list[Environment]:
    """All environments that a run has been in, in order: those before it was resumed, then the present one."""
    now = environment(simulation)
    return simulation.earlier if simulation.earlier[-1:] == [now] else [*simulation.earlier, now]


def processor() -> str:
    """The name of the processor, as far as the system tells it."""
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
