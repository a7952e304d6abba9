"""The names that `run.engine` takes; the engines themselves are the simulator's, and are found by lying there."""

from typing import Any

from fedbench.base.registry import Registry

AUTO = "auto"  # leaves the choice to the device

ENGINES: Registry[type[Any]] = Registry("engine", home="fedbench.simulation.engines")
