"""FedAvg: data-size weights."""

from typing import Literal

from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method, size_weighted


class FedAvgSettings(MethodSettings):
    """FedAvg has no settings of its own."""

    name: Literal["fedavg"] = "fedavg"


@register_method()
class FedAvg(Method[FedAvgSettings]):
    """w_g' = sum_i (|D_i| / |D|) w_i over the cohort."""

    Settings = FedAvgSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by data sizes."""
        return size_weighted(cohort)
