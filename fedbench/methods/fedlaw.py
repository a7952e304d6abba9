"""FedLAW: gamma and lambda learned together on the proxy set (the paper's method)."""

from typing import Literal

from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.learned import PAPER_BN, LearnedGammaSettings, WeightLearner


class FedLAWSettings(LearnedGammaSettings):
    """Settings of the learned weights."""

    name: Literal["fedlaw"] = "fedlaw"


@register_method()
class FedLAW(Method[FedLAWSettings]):
    """(gamma*, lambda*) = argmin L_proxy(gamma * sum_i lambda_i w_i), gamma > 0, lambda on the simplex."""

    Settings = FedLAWSettings
    bn = PAPER_BN

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Learn both at once."""
        s = self.settings
        learner = WeightLearner(cohort, server, s)
        learner.run(s.epochs, learn_gamma=True, learn_lambda=True, max_gamma=s.max_gamma)
        return learner.update()
