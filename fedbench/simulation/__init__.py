"""The simulation of one federated run: local training, the round loop, evaluation, checkpoints and callbacks."""

from fedbench.simulation.drive import Callback, drive
from fedbench.simulation.loop import Simulation, simulate
from fedbench.simulation.record import Record

__all__ = ["Callback", "Record", "Simulation", "drive", "simulate"]
