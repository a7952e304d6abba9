"""FedAvg: the clients' mean, by data sizes or uniform."""

from typing import Annotated, Literal

from fedbench.base.fields import UnhashedDefault
from fedbench.methods.base import (
    Cohort,
    Method,
    MethodSettings,
    ProxyUse,
    Server,
    State,
    Update,
    register_method,
)


class FedAvgSettings(MethodSettings):
    """Controls: for methods that do without data sizes, and for methods that use the proxy set's labels."""

    name: Literal["fedavg"] = "fedavg"
    weights: Annotated[Literal["uniform", "size"], UnhashedDefault()] = "size"
    """of clients in the mean: all the same, or by data size"""
    proxy_client: bool | Literal["repeated"] = False
    """train on the proxy set as one more client; repeated: with its images repeated up to an average client's number"""

    @property
    def proxy_use(self) -> ProxyUse:
        """Images and labels, where the proxy set is a client."""
        return "labelled" if self.proxy_client else "none"

    @property
    def proxy_as_client(self) -> bool:
        """As the setting says."""
        return bool(self.proxy_client)

    @property
    def proxy_repeated(self) -> bool:
        """As the setting says."""
        return self.proxy_client == "repeated"


@register_method()
class FedAvg(Method[FedAvgSettings]):
    """w_g' = sum_i lambda_i w_i over the cohort, lambda_i = |D_i| / |D|, or 1 / m with uniform weights."""

    Settings = FedAvgSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average, as the weights say."""
        lambda_ = cohort.p if self.settings.weights == "size" else cohort.uniform
        return Update(w=cohort.combine(lambda_), lambda_=lambda_)
