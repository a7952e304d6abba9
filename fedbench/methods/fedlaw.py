"""FedLAW: gamma and lambda learned together on the proxy set (the paper's method)."""

from typing import Literal

from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.learned import PAPER_BN, LearnedSettings, WeightLearner


class FedLAWSettings(LearnedSettings):
    """Settings of the learned weights."""

    name: Literal["fedlaw"] = "fedlaw"


@register_method()
class FedLAW(Method[FedLAWSettings]):
    """(gamma*, lambda*) = argmin L_proxy(gamma * sum_i lambda_i w_i), gamma > 0, lambda on the simplex."""

    Settings = FedLAWSettings
    bn = PAPER_BN

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Learn both at once."""
        learner = WeightLearner(cohort, server, self.settings)
        learner.run(self.settings.epochs, learn_gamma=True, learn_lambda=True)
        return learner.update()
