"""TrialConfig holds all settings of one federated run; this package resolves, checks and hashes them."""

from fedbench.config.identity import LAST_ROUNDS, score_rounds
from fedbench.config.schema import RunConfig, TrialConfig

__all__ = ["LAST_ROUNDS", "RunConfig", "TrialConfig", "score_rounds"]
