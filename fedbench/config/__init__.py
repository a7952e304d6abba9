"""TrialConfig: every setting of one federated run, typed, resolved, checked and hashed."""

from fedbench.config.identity import LAST_ROUNDS, score_rounds
from fedbench.config.schema import RunConfig, TrialConfig

__all__ = ["LAST_ROUNDS", "RunConfig", "TrialConfig", "score_rounds"]
