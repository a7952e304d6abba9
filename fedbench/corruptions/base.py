"""What a corruption is: other labels for a corrupted client, or another model than the one that it trained."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from torch import Tensor

from fedbench.base.registry import Registry, with_brackets
from fedbench.data.classes import Labels


@dataclass(frozen=True)
class CorruptedCohort:
    """What the k corrupted clients of a cohort know when they send: their own models and those of h honest clients.

    clients: ids of the corrupted [k]; own: their models after local training [k, P], and statistics: their running
    statistics [k, Q]; honest: the models of the others [h, P]; w [P], buffers [Q]: the global model before the round;
    scale: `clients.corruption_scale`, or the corruption's own default; rng(client): a generator for this round and
    client. Models are vectors in the order that `FlatModel` states: 4-d weights lie channels-last.
    """

    clients: tuple[int, ...]
    own: Tensor
    statistics: Tensor
    honest: Tensor
    w: Tensor
    buffers: Tensor
    scale: float
    rng: Callable[[int], np.random.Generator]


class Corruption:
    """What corrupted clients do. Subclasses have a `name`, override the hooks that they need, and are stateless.

    A corrupted client trains as any other; its momentum and its statistics live on as they are, whatever it sends.
    """

    name: ClassVar[str]

    @property
    def purpose(self) -> str:
        """Return the purpose that keys its random draws, beside seed, round and client."""
        return f"corruption/{self.name}"

    @property
    def sends_another_model(self) -> bool:
        """Return whether the models that are sent differ from those that were trained."""
        kind = type(self)
        return kind.updates is not Corruption.updates or kind.statistics is not Corruption.statistics

    def default_scale(self, m: int, k: int) -> float | None:
        """The scale where none is set, k clients of a cohort of m being corrupted; None: there is nothing to scale."""
        return None

    def labels(self, labels: Labels, classes: int, rng: np.random.Generator) -> Labels:
        """Return the labels [N] on which a corrupted client trains, of 0 ...

        Classes - 1; once, before the first round.
        """
        return labels

    def updates(self, cohort: CorruptedCohort) -> Tensor:
        """The models that the corrupted clients send [k, P]."""
        return cohort.own

    def statistics(self, cohort: CorruptedCohort) -> Tensor:
        """The running statistics that they send along [k, Q]: honest ones, since variances must stay above 0."""
        return cohort.statistics


CORRUPTIONS: Registry[Corruption] = Registry("corruption", home="fedbench.corruptions")

C = TypeVar("C", bound=type[Corruption])


def register_corruption(version: str | None = None) -> Callable[[C], C]:
    """Decorate a Corruption subclass, which has a `name`; one from outside the package may give a `version`."""
    with_brackets("register_corruption()", version)

    def register(corruption: C) -> C:
        CORRUPTIONS.add(corruption.name, corruption(), version)
        return corruption

    return register
