"""How far the clients move away from the global model."""

from collections.abc import Sequence

import torch

from fedbench.base.fields import Strict
from fedbench.indicators import Column, Indicator, Observation, RoundContext, register_indicator


class MyDriftSettings(Strict):
    """Whether to look."""

    my_drift: bool = False
    """how far the clients move away from the global model"""


@register_indicator()
class MyDrift(Indicator[MyDriftSettings]):
    """The mean distance of the clients' models from the model that they started from, and each client's own."""

    name = "my_drift"
    Settings = MyDriftSettings
    tables = {"my_drift": ("client", "distance")}

    def columns(self) -> Sequence[Column]:
        """One number a round."""
        return [Column("my_drift_mean", "mean distance of the clients from the global model")]

    def observe(self, settings: MyDriftSettings, context: RoundContext) -> Observation:
        """|w_i - w_g| of every client of the cohort."""
        if not settings.my_drift:
            return Observation()
        cohort = context.cohort
        distances = torch.linalg.vector_norm(cohort.W - cohort.w, dim=1).tolist()
        rows = list(zip(cohort.clients, distances, strict=True))
        return Observation({"my_drift_mean": sum(distances) / len(distances)}, {"my_drift": rows})
