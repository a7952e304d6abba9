"""One federated run: local training, the round loop, evaluation, checkpoints."""

from fedbench.simulation.loop import Simulation, simulate
from fedbench.simulation.record import Record

__all__ = ["Record", "Simulation", "simulate"]
