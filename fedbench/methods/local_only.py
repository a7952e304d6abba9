"""Local only: the bound of clients that train without one another."""

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


class LocalOnlySettings(MethodSettings):
    """Nothing to set."""

    name: Literal["local_only"] = "local_only"

    @property
    def training(self) -> Training:
        """Each client goes on from its own model."""
        return "local"


@register_method()
class LocalOnly(Method[LocalOnlySettings]):
    """Local training only, a bound: each client keeps a model of its own, and the mean of their scores is the score.

    Clients take the same steps on the same batches as in federated training. Nothing is sent, and the global model
    stays the initial one.
    """

    Settings = LocalOnlySettings
    bn = "local"

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Leave the global model as it is."""
        return Update(w=cohort.w, lambda_=None, buffers=cohort.buffers)
