"""Adaptive global weight shrinking: data-size weights, gamma learned on the proxy set."""

from typing import Literal

from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.learned import PAPER_BN, LearnedSettings, WeightLearner


class AdaptiveGWSSettings(LearnedSettings):
    """Settings of the learned gamma."""

    name: Literal["adaptive_gws"] = "adaptive_gws"


@register_method()
class AdaptiveGWS(Method[AdaptiveGWSSettings]):
    """gamma* = argmin L_proxy(gamma * sum_i (|D_i| / |D|) w_i)."""

    Settings = AdaptiveGWSSettings
    bn = PAPER_BN

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Learn gamma alone."""
        learner = WeightLearner(cohort, server, self.settings)
        learner.run(self.settings.epochs, learn_gamma=True, learn_lambda=False)
        return learner.update()
