"""FedAvg: data-size weights."""

from typing import Literal

from fedbench.methods.base import (
    Cohort,
    Method,
    MethodSettings,
    ProxyUse,
    Server,
    State,
    Update,
    register_method,
    size_weighted,
)


class FedAvgSettings(MethodSettings):
    """A control for methods that use the proxy set's labels."""

    name: Literal["fedavg"] = "fedavg"
    proxy_client: bool = False
    """train on the proxy set as one more client"""

    @property
    def proxy_use(self) -> ProxyUse:
        """Images and labels, where the proxy set is a client."""
        return "labelled" if self.proxy_client else "none"

    @property
    def proxy_as_client(self) -> bool:
        """As the setting says."""
        return self.proxy_client


@register_method()
class FedAvg(Method[FedAvgSettings]):
    """w_g' = sum_i (|D_i| / |D|) w_i over the cohort."""

    Settings = FedAvgSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by data sizes."""
        return size_weighted(cohort)
