"""The suggestions of a search that run now: what they report goes to Optuna, whose pruner may stop them."""

from collections.abc import Mapping
from typing import Any, Protocol

import optuna

from fedbench.base.memory import could_grow
from fedbench.searches.suggestions import Suggestions
from fedbench.store.mark import UNCAPTURED


class Listener(Protocol):
    """Who is told what becomes of suggestions, which are named by their number."""

    def update(self, number: int, round_: int, score: float | None) -> None:
        """A suggestion has got to a round."""

    def ended(self, number: int, values: Mapping[str, object], outcome: str, score: float | None, reason: str) -> None:
        """A suggestion has its outcome."""


class RunningSuggestions:
    """Asks Optuna for suggestions and tells it how they ended, by any name that the caller has for each.

    sampler: the kind of Optuna's sampler; grown: whether suggestions have more of a GPU than at first. If not, one that
    runs out of memory is put back, and `short_of_memory` says so. `again`: whether one was put back that is to be run
    in another way.
    """

    def __init__(self, suggestions: Suggestions, sampler: str, listener: Listener, *, grown: bool) -> None:
        self.suggestions, self.sampler, self.listener, self.grown = suggestions, sampler, listener, grown
        self.short_of_memory = self.again = False
        self._running: dict[str, optuna.Trial] = {}
        self._ends: dict[str, Mapping[str, Any]] = {}  # the last reports of those that have ended

    def ask(self, name: str) -> dict[str, Any]:
        """Return what a worker needs to know of the next suggestion."""
        self._running[name], config = self.suggestions.ask(self.sampler)
        return config

    def report(self, name: str, result: Mapping[str, Any]) -> bool:
        """Take in the score of a round; return whether the suggestion is to be stopped early."""
        trial, score = self._running[name], result.get("score")
        if score is not None:
            trial.report(score, result["round"])
        self.listener.update(trial.number, result["round"], score)
        if result["status"] != "running":
            self._ends[name] = result
        return result["status"] == "running" and score is not None and trial.should_prune()

    def end(self, name: str, result: Mapping[str, Any] | None, share: float) -> None:
        """Tell Optuna how a suggestion ended that had a share of a GPU.

        One whose process died leaves no result; it is put back later, as is one that is to be run in another way. One
        that is stopped with everything else is not told to Optuna, so that the next command runs it again.
        """
        trial, result = self._running.pop(name), self._ends.pop(name, result)
        status, reason = (result or {}).get("status"), (result or {}).get("reason", "its error is in the ray folder")
        short = status == "failed" and not self.grown and could_grow(share, reason)
        self.short_of_memory |= short
        self.again |= short or status == UNCAPTURED
        if short or not result or status in (None, UNCAPTURED):
            self.suggestions.fail(trial)
            self.listener.ended(trial.number, trial.params, "died", None, reason)
            return
        outcome, score = "stopped" if status == "running" else str(status), result.get("score")
        ended = {"outcome": outcome, "score": score, "rounds": result["round"], "reason": reason}
        self.suggestions.record(trial, {**ended, "seconds": result["time_total_s"]})
        self.listener.ended(trial.number, trial.params, outcome, score, reason)
