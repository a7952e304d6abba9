"""Runs that differ in their seed, in lockstep: what one suggestion of a search is scored by."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from fedbench.config import TrialConfig, score_rounds
from fedbench.simulation.loop import Simulation
from fedbench.simulation.record import Record


class Step(NamedTuple):
    """One round of all runs: the mean score so far (None where the round is not scored), or why one run diverged.

    last: whether it was the last round.
    """

    round: int
    score: float | None
    diverged: str | None
    last: bool


class Lockstep:
    """Several runs in one process, a round of each at a time; none knows of the others."""

    def __init__(
        self, configs: Sequence[TrialConfig], metric: str, data_dir: Path | None = None, rounds: int | None = None
    ) -> None:
        self.metric, self.rounds = metric, rounds or score_rounds(configs[0].rounds)
        self.simulations = [Simulation(config, data_dir) for config in configs]

    @property
    def done(self) -> bool:
        """Whether all rounds have run, or a run has diverged."""
        return any(simulation.done for simulation in self.simulations)

    def step(self) -> Step:
        """Run one round of every run, up to the first that diverges."""
        for simulation in self.simulations:
            record = simulation.step()
            lost = record.test_loss is not None and getattr(record, self.metric) is None
            reason = record.diverged or (f"round {record.round}: {self.metric} is not a number" if lost else None)
            if reason:
                return Step(record.round, None, f"seed {simulation.config.seed}: {reason}", last=True)
        scores = [recent_mean(simulation.state.history, self.metric, self.rounds) for simulation in self.simulations]
        known = [score for score in scores if score is not None]
        return Step(record.round, fmean(known) if len(known) == len(scores) else None, None, self.done)


def recent_mean(history: Sequence[Record], metric: str, rounds: int) -> float | None:
    """The mean of a metric over the last rounds so far, as the final score is taken; None in an unscored round."""
    now = history[-1].round
    if getattr(history[-1], metric) is None:
        return None
    recent = [getattr(record, metric) for record in history if record.round > now - rounds]
    return fmean(value for value in recent if value is not None)
