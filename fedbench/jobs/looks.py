"""Adding seeds to studies, look by look, until their claims and comparisons with the baseline are decided."""

import time
from collections.abc import Iterable, Mapping, Sequence

from fedbench.analysis.deciding import Standing, with_more
from fedbench.analysis.looks import CellKey
from fedbench.analysis.trials import stored_trials
from fedbench.base.errors import UserError
from fedbench.base.text import say
from fedbench.config import TrialConfig
from fedbench.console.progress import clock
from fedbench.cost.cases import Machine
from fedbench.cost.estimate import estimate
from fedbench.jobs.options import Request
from fedbench.jobs.placement import placement
from fedbench.jobs.plans import decided_with
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import Store
from fedbench.tune.options import RunOptions

HOUR = 3600.0


class Looks:
    """The studies of a command to which seeds are added, and how their questions stand.

    standing: by the study's name; budget: hours after which no look may end.
    """

    def __init__(self, studies: Sequence[ScaledStudy], store: Store, request: Request) -> None:
        self.store, self.options, self.budget = store, request.options, request.budget
        named = [] if request.selection.seeds else studies
        self.names = [s.name for s in named if s.plan.decides and decided_with(s, request.most_seeds)]
        self.standing = dict[str, Standing]()
        self._started = time.monotonic()
        if self.budget is not None and not self.names:
            raise UserError("--budget: goes with --decide, or with a study file that says decide")

    def ahead(self, studies: Sequence[ScaledStudy]) -> list[ScaledStudy]:
        """Return the studies with the seeds that their open questions need next, by the trials that have ended."""
        for study in studies:
            if study.name in self.names:
                self.standing[study.name] = Standing.of(study, stored_trials(study, self.store))
        return self._with(studies, {study.name: self._next(study) for study in studies})

    @property
    def text(self) -> str:
        """How many questions are open, in words; empty if no seeds are added."""
        several = len(self.standing) > 1
        return "; ".join(f"{name}: {s.text}" if several else s.text for name, s in self.standing.items())

    def affordable(self, missing: Mapping[str, TrialConfig]) -> bool:
        """Return whether the next look, with these trials, ends within the budget; say so if it does not."""
        if self.budget is None:
            return True
        spent, needed = time.monotonic() - self._started, self._seconds(self.options, missing.values())
        if spent + needed <= self.budget * HOUR:
            return True
        took = f"{clock(spent)} of {self.budget:g} hours are used, and the next look needs about {clock(needed)}"
        say(f"budget: {took} for {len(missing)} trials; {self.text}")
        return False

    def estimate(self, studies: Sequence[ScaledStudy], finished: Iterable[str]) -> None:
        """Print what it costs to decide everything: at most, and as expected by the spreads seen so far."""
        done = set(finished)
        for words, seeds_of in (("at most", Standing.most_seeds), ("expected", Standing.expected_seeds)):
            wanted = {s.name: seeds_of(self.standing[s.name], s.plan) for s in studies if s.name in self.standing}
            if not any(wanted.values()):
                unknown = "not known before the first look, which shows the spreads"
                say(f"{words}: {unknown if any(s.open for s in self.standing.values()) else 'nothing is left to run'}")
                continue
            trials = {h: c for study in self._with(studies, wanted) for h, c in study.trials.items() if h not in done}
            seconds = self._seconds(self.options, trials.values())
            reason = "if no question is decided before the last look" if words == "at most" else "by the spreads so far"
            say(f"{words}: {len(trials)} trials to run, about {clock(seconds)}, {reason}")

    def _next(self, study: ScaledStudy) -> Mapping[CellKey, int]:
        return self.standing[study.name].next_seeds(study.plan) if study.name in self.names else {}

    def _with(self, studies: Sequence[ScaledStudy], seeds: Mapping[str, Mapping[CellKey, int]]) -> list[ScaledStudy]:
        return [with_more(s, seeds.get(s.name, {})) if s.name in self.names else s for s in studies]

    def _seconds(self, options: RunOptions, trials: Iterable[TrialConfig]) -> float:
        """How long some trials will take on this machine."""
        there = list(trials)
        place = placement(options, there, self.store, Machine.here())
        return estimate(there, self.store, place.pace).seconds / place.at_once
