"""Steps as torch runs them, one operation at a time."""

from torch import Tensor

from fedbench.methods import Correction
from fedbench.simulation.engines.base import Engine, Start, register_engine
from fedbench.simulation.local import Plan, Sgd, local_train


@register_engine("eager")
class Eager(Engine):
    """On any device; what all other engines are held against."""

    def train(self, plan: Plan, start: Start, velocity: Tensor, correction: Correction | None, sgd: Sgd) -> Tensor:
        """Train a client, step by step."""
        self.model.load(*start)
        return local_train(self.model, self.samples, plan, sgd, velocity, correction)
