"""The registry of engines, which `run.engine` names. Their implementations are in `fedbench.simulation.engines`."""

from typing import Any

from fedbench.base.registry import Registry

AUTO = "auto"  # the engine is chosen by the device

ENGINES: Registry[type[Any]] = Registry("engine", home="fedbench.simulation.engines")
