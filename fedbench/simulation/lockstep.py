"""Runs with different seeds in lockstep, whose mean score is the objective of a search's suggestion."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from fedbench.config import TrialConfig, score_rounds
from fedbench.simulation.loop import Simulation
from fedbench.simulation.record import Record


class Step(NamedTuple):
    """The result of one round of all runs.

    score: mean score over the last rounds and all runs, None if the round was not evaluated.
    diverged: the reason if a run has diverged.
    last: whether this was the last round.
    """

    round: int
    score: float | None
    diverged: str | None
    last: bool


class Lockstep:
    """Several independent runs in one process, which advance together round by round."""

    def __init__(
        self, configs: Sequence[TrialConfig], metric: str, data_dir: Path | None = None, rounds: int | None = None
    ) -> None:
        self.metric, self.rounds = metric, rounds or score_rounds(configs[0].rounds)
        self.simulations = [Simulation(config, data_dir) for config in configs]

    @property
    def done(self) -> bool:
        """Whether all rounds have been run or a run has diverged."""
        return any(simulation.done for simulation in self.simulations)

    def step(self) -> Step:
        """Run one round of every run; stop at the first run that diverges."""
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
    """The mean of a metric over the last `rounds` rounds; None if the last round was not evaluated."""
    now = history[-1].round
    if getattr(history[-1], metric) is None:
        return None
    recent = [getattr(record, metric) for record in history if record.round > now - rounds]
    return fmean(value for value in recent if value is not None)
