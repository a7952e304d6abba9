"""Early stopping of suggestions by Optuna's asynchronous successive halving."""

from typing import Any

from optuna import Study
from optuna.pruners import SuccessiveHalvingPruner
from optuna.trial import FrozenTrial, TrialState

REDUCTION = 3  # a third of the suggestions goes on at every rung
EARLIEST = 5  # rounds before which a score says little about the end


def first_rung(rounds: int) -> int:
    """Return the round of the first rung: a ninth of all rounds, or a third where a ninth is fewer than five."""
    ninth = -(-rounds // REDUCTION**2)
    return ninth if ninth >= EARLIEST else -(-rounds // REDUCTION)


class SuccessiveHalving(SuccessiveHalvingPruner):
    """Stops a suggestion whose score at a rung is not among the best third of all scores at that rung.

    Optuna keeps the scores at the rungs in the study's storage, so a search that is continued stops as many suggestions
    as one in one go. A suggestion that failed or was interrupted does not count, since it is run again and would count
    twice.

    rounds: of a suggestion that is not stopped.
    """

    def __init__(self, rounds: int) -> None:
        super().__init__(min_resource=first_rung(rounds), reduction_factor=REDUCTION)

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether a suggestion is to be stopped after the last round that it has reported."""
        counted: Any = _WithoutFailed(study)
        return super().prune(counted, trial)


class _WithoutFailed:
    """A study whose failed trials are left out."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def get_trials(self, deepcopy: bool = True) -> list[FrozenTrial]:
        """Return all trials except for those that have failed."""
        return [trial for trial in self._study.get_trials(deepcopy) if trial.state is not TrialState.FAIL]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)
