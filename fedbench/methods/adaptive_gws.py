"""Adaptive global weight shrinking: data-size weights, gamma learned on the proxy set."""

from typing import Literal

from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.learned import PAPER_BN, LearnedGammaSettings, WeightLearner


class AdaptiveGWSSettings(LearnedGammaSettings):
    """Settings of the learned gamma."""

    name: Literal["adaptive_gws"] = "adaptive_gws"


@register_method()
class AdaptiveGWS(Method[AdaptiveGWSSettings]):
    """gamma* = argmin L_proxy(gamma * sum_i (|D_i| / |D|) w_i)."""

    Settings = AdaptiveGWSSettings
    bn = PAPER_BN

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Learn gamma alone."""
        s = self.settings
        learner = WeightLearner(cohort, server, s)
        learner.run(s.epochs, learn_gamma=True, learn_lambda=False, max_gamma=s.max_gamma)
        return learner.update()
