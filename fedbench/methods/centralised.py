"""Centralised: the bound of training on all clients' data in one place."""

from typing import Literal

from fedbench.methods.base import (
    Cohort,
    Method,
    MethodSettings,
    Server,
    State,
    Training,
    Update,
    register_method,
)


class CentralisedSettings(MethodSettings):
    """Nothing to set."""

    name: Literal["centralised"] = "centralised"

    @property
    def training(self) -> Training:
        """On the data of all clients together."""
        return "centralised"


@register_method()
class Centralised(Method[CentralisedSettings]):
    """Centralised training, a bound: one model on all clients' data, as many steps a round as its clients together.

    Batches are cut from one permutation of all training data after the other, whatever clients the samples belong to.
    """

    Settings = CentralisedSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Take over the one model that was trained, with its running statistics."""
        buffers = None if cohort.bn == "proxy" else cohort.B[0].clone()
        return Update(w=cohort.combine(cohort.p), lambda_=None, buffers=buffers)
