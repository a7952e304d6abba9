"""What an engine is: it trains one client along its plan."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from fedbench.base.errors import ConfigError
from fedbench.base.registry import with_brackets
from fedbench.config.engines import AUTO, ENGINES
from fedbench.data.samples import Samples
from fedbench.methods import Correction
from fedbench.methods.base import Step
from fedbench.models import FlatModel
from fedbench.simulation.local import Plan, Sgd


class Start(NamedTuple):
    """Where a client starts from: parameters w [P] and running statistics [Q]. Neither is written to."""

    w: Tensor
    buffers: Tensor


class CaptureFailed(UserWarning):
    """A step could not be captured. Torch's allocator and generators may be left in the middle of the capture.

    A run goes on without captured steps. A process that can leave the run to another one should do so: if it makes this
    warning an error, the run ends with it.
    """


class Engine(ABC):
    """Trains the clients of a run, one after the other, in one model on its device.

    The result does not depend on the engine, to the byte: before an engine is used for a model and a device, its result
    is compared with that of `eager`.

    trouble: why it cannot work as it is meant to, once that has come up; complaint: the line for users about it, or
    about the engine that they asked for and that is not used; thorough: whether it is being compared with `eager`, and
    does at once what it would otherwise do only in longer runs.
    """

    name: ClassVar[str]

    def __init__(self, model: FlatModel, samples: Samples) -> None:
        self.model, self.samples = model, samples
        self.thorough = False
        self.trouble: str | None = None
        self.complaint: str | None = None

    @classmethod
    def refuses(cls, device: torch.device) -> str | None:
        """Why it cannot be used on a device, None if it can."""
        return None

    def complain(self, reason: str, so: str, kind: type[UserWarning] = UserWarning) -> None:
        """Warn that the engine of a name cannot do its work, and what is done about it; trials tell their driver."""
        self.complaint = f"run.engine = {reason}; {so}"
        warnings.warn(self.complaint, kind, stacklevel=3)

    def repeated(self, step: Step) -> Step:
        """A server's step that is about to be repeated many times, as it is or faster (see `Server`)."""
        return step

    @abstractmethod
    def train(self, plan: Plan, start: Start, velocity: Tensor, correction: Correction | None, sgd: Sgd) -> Tensor:
        """Train a client from `start`; its parameters and statistics are then the model's, `velocity` [P] its momentum.

        Returns the mean loss over all samples seen, a 0-d float64 tensor on the device. Nothing waits for the device.
        """


E = TypeVar("E", bound=type[Engine])


def register_engine(name: str) -> Callable[[E], E]:
    """Decorate an Engine subclass."""
    with_brackets("register_engine('name')", name)
    if name == AUTO:
        raise ConfigError(f"engine '{AUTO}': leaves the choice to the device; choose another name")

    def register(engine: E) -> E:
        engine.name = name
        ENGINES.add(name, engine)
        return engine

    return register
