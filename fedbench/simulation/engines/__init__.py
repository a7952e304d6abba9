"""How local training is carried out: one file an engine, all with the same bytes on one device."""

from fedbench.simulation.engines.base import CaptureFailed, Engine, Start, register_engine
from fedbench.simulation.engines.choice import check_device, choose_engine

__all__ = ["CaptureFailed", "Engine", "Start", "check_device", "choose_engine", "register_engine"]
