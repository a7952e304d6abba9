"""What is to be run until a study is decided: which cells need how many seeds for the next look, and for all of them.

Claims and comparisons with the baseline are the questions of a study. A question that is open needs the seeds of the
plan's next look in all cells behind it, its baseline among them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedbench.analysis.claims import Finding, check_claims
from fedbench.analysis.comparisons import comparisons
from fedbench.analysis.looks import CellKey
from fedbench.analysis.statistics.verdicts import DECIDED, Array, judge
from fedbench.analysis.values import Trials
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.plan import Plan

SIMULATIONS = 200  # of the seeds that are still to come


@dataclass(frozen=True)
class Standing:
    """How the questions of a study stand."""

    claims: Sequence[Finding]
    comparisons: Sequence[Finding]

    @classmethod
    def of(cls, study: ScaledStudy, trials: Trials) -> "Standing":
        """The questions of a study, judged by the trials that have ended."""
        return cls(check_claims(study, trials), comparisons(study, trials))

    @property
    def open(self) -> list[Finding]:
        """The questions that a look which is still to come may decide."""
        return [finding for finding in (*self.claims, *self.comparisons) if finding.more]

    @property
    def text(self) -> str:
        """How many questions further seeds may decide, in words."""
        kinds = (("claims", self.claims), ("comparisons", self.comparisons))
        parts = [f"{sum(one.more for one in found)} of {len(found)} {words}" for words, found in kinds if found]
        return f"{' and '.join(parts)} open"

    def next_seeds(self, plan: Plan) -> dict[CellKey, int]:
        """How many seeds of the plan each cell needs for the next looks at the open questions behind which it is."""
        return _largest((finding, plan.looks[len(finding.looks)].seeds) for finding in self.open)

    def most_seeds(self, plan: Plan) -> dict[CellKey, int]:
        """How many seeds each cell needs if no open question is decided before the last look."""
        return _largest((finding, plan.looks[-1].seeds) for finding in self.open)

    def expected_seeds(self, plan: Plan) -> dict[CellKey, int]:
        """How many seeds each cell will need, in the mean over simulations of the further seeds; {} before a look.

        Simulated seeds are normal, with the spreads seen so far and with means as uncertain as the seeds seen so far
        leave them. Of a question in which a trial diverged or is missing, all looks are counted.
        """
        if not any(finding.looks for finding in self.open):
            return {}
        rng = np.random.default_rng(0)
        stops: dict[CellKey, Array] = {}
        for finding in self.open:
            needed = _stops(finding, plan, rng)
            for cell in finding.cells:
                stops[cell] = np.maximum(stops[cell], needed) if cell in stops else needed
        return {cell: round(float(needed.mean())) for cell, needed in stops.items()}


def with_more(study: ScaledStudy, seeds: Mapping[CellKey, int]) -> ScaledStudy:
    """The study with at least so many seeds of its plan in some of its cells."""

    def of(cell: Cell) -> list[int]:
        wanted = study.plan.seeds[: seeds.get(tuple(cell.labels.values()), 0)]
        return [seed for seed in study.plan.seeds if seed in cell.trials or seed in wanted]

    return study.with_seeds(of)


def _largest(needs: Iterable[tuple[Finding, int]]) -> dict[CellKey, int]:
    seeds: dict[CellKey, int] = {}
    for finding, needed in needs:
        for cell in finding.cells:
            seeds[cell] = max(needed, seeds.get(cell, 0))
    return seeds


def _stops(finding: Finding, plan: Plan, rng: np.random.Generator) -> Array:
    """After how many seeds a question is decided, or the plan ends, in every simulation."""
    seen = None if finding.source is None else np.asarray(finding.source.sample, float)
    if finding.source is None or seen is None or len(seen) < 2 or not np.isfinite(seen).all():
        return np.full(SIMULATIONS, float(plan.looks[-1].seeds))
    n, more = len(seen), plan.looks[-1].seeds - len(seen)
    apart = seen - seen.mean(axis=0)
    means = seen.mean(axis=0) + _mixed(rng.standard_normal((1, SIMULATIONS, n)), apart) / n**0.5
    further = means + _mixed(rng.standard_normal((more, SIMULATIONS, n)), apart)
    known = np.broadcast_to(seen[:, None], (n, SIMULATIONS, *seen.shape[1:]))
    sample = np.moveaxis(np.concatenate([known, further]), 1, -1)
    stop, going = np.full(SIMULATIONS, float(plan.looks[-1].seeds)), np.full(SIMULATIONS, True)
    asked = finding.source
    for look in plan.looks[len(finding.looks) :]:
        judged = judge(
            *(sample[: look.seeds], asked.low, asked.high, asked.rule, asked.also),
            margin=finding.margin,
            level=look.level,
        )
        decided = going & np.isin(judged.verdicts, DECIDED)
        stop[decided], going = look.seeds, going & ~decided
    return stop


def _mixed(weights: Array, apart: Array) -> Array:
    """Normal numbers with the variances and covariances of the points of a sample, from its deviations [n, points]."""
    return np.asarray(np.tensordot(weights, apart, axes=1) / (len(apart) - 1) ** 0.5)
