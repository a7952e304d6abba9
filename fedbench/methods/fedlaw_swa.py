"""FedLAW (SWA): gamma and lambda learned one after the other, lambda with stochastic weight averaging."""

from typing import Literal

from fedbench.base.fields import Positive, Whole
from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.learned import PAPER_BN, LearnedGammaSettings, Swa, WeightLearner


class FedLAWSWASettings(LearnedGammaSettings):
    """Both stages of learning."""

    name: Literal["fedlaw_swa"] = "fedlaw_swa"
    order: Literal["gamma_first", "lambda_first"] = "gamma_first"
    """which is learned first"""
    swa_start: Whole = Swa.start
    """server epochs before x is averaged"""
    swa_lr: Positive = Swa.lr
    """learning rate while it is averaged"""


@register_method()
class FedLAWSWA(Method[FedLAWSWASettings]):
    """Two stages of floor(E_s / 2) epochs each: one part learned, the other held fixed."""

    Settings = FedLAWSWASettings
    bn = PAPER_BN

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Learn gamma, then lambda (the paper's order), or the other way round."""
        s = self.settings
        learner = WeightLearner(cohort, server, s)
        for gamma_stage in (True, False) if s.order == "gamma_first" else (False, True):
            if gamma_stage:
                learner.run(s.epochs // 2, learn_gamma=True, learn_lambda=False, max_gamma=s.max_gamma)
            else:
                swa = Swa(s.swa_start, s.swa_lr)
                learner.run(s.epochs // 2, learn_gamma=False, learn_lambda=True, swa=swa)
        return learner.update()
