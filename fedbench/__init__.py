"""fedbench: a benchmark suite for weighted aggregation in federated learning."""

from fedbench.config import TrialConfig
from fedbench.errors import ConfigError, UserError
from fedbench.simulation import Record, Simulation, simulate

__version__ = "0.1.0"

__all__ = ["ConfigError", "Record", "Simulation", "TrialConfig", "UserError", "__version__", "simulate"]
