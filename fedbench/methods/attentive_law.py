"""Attentive LAW: gamma = 1, lambda learned on the proxy set; with SWA, or stopped early."""

from typing import Literal

from fedbench.base.fields import Positive, Whole, hashed_settings
from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method, size_weighted
from fedbench.methods.learned import PAPER_BN, LearnedSettings, Swa, WeightLearner


class AttentiveLAWSettings(LearnedSettings):
    """The learned weights, SWA, and when to stop."""

    name: Literal["attentive_law"] = "attentive_law"
    swa: bool = False
    """average the weights over server epochs"""
    swa_start: Whole = Swa.start
    """server epochs before x is averaged"""
    swa_lr: Positive = Swa.lr
    """learning rate while it is averaged"""
    stop_round: Whole | None = None
    """data-size weights after this round; null for never"""

    def canonical(self) -> dict[str, object]:
        """Without SWA, its settings change nothing."""
        unused = set() if self.swa else {"swa_start", "swa_lr"}
        return hashed_settings(self, unused)


@register_method()
class AttentiveLAW(Method[AttentiveLAWSettings]):
    """lambda* = argmin L_proxy(sum_i lambda_i w_i) on the simplex, in rounds t <= stop_round."""

    Settings = AttentiveLAWSettings
    bn = PAPER_BN

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Learn lambda alone."""
        s = self.settings
        if s.stop_round is not None and cohort.round > s.stop_round:
            return size_weighted(cohort)
        learner = WeightLearner(cohort, server, s)
        learner.run(s.epochs, learn_gamma=False, learn_lambda=True, swa=Swa(s.swa_start, s.swa_lr) if s.swa else None)
        return learner.update()
