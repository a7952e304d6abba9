"""Judging a question about stored trials at the looks of its study's plan, one after the other, until it is decided."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from fedbench.analysis.checks.base import Cells, Evidence
from fedbench.analysis.statistics.verdicts import DECIDED, LEVEL, Array, Judgement, Verdict, judge, over_looks
from fedbench.analysis.values import Trials
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import Label

CellKey = tuple[Label, ...]  # a cell, by its labels in the order of the axes


class Reading(NamedTuple):
    """Values of a metric by seed that were read for a question, with the cells (and their baseline) behind them."""

    cells: Cells
    metric: str
    values: Array
    baseline: Cells = ()


Ask = Callable[[Sequence[int]], tuple[Evidence, Sequence[Reading]]]  # from seeds to evidence and what was read for it


@dataclass(frozen=True)
class LookTaken:
    """What one look saw: mean and interval of what counts, each bound wrong in half of the level of all cases."""

    seeds: int
    level: float
    n: int
    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Answer:
    """What the looks of a plan say of a question.

    evidence, read: of the last look; judged: over all looks; looks: those that were taken; margin: in the unit of the
    evidence, None where there is none; before: the decision of an earlier plan with one look, where this plan's levels
    leave it open; more: whether a look that is still to come may decide it.
    """

    evidence: Evidence
    judged: Judgement
    verdict: Verdict
    looks: Sequence[LookTaken]
    read: Sequence[Reading]
    margin: float | None = None
    before: Verdict | None = None
    more: bool = False

    @property
    def cells(self) -> frozenset[CellKey]:
        """All cells behind it."""
        return frozenset(tuple(cell.labels.values()) for one in self.read for cell in (*one.cells, *one.baseline))


def answer(study: ScaledStudy, trials: Trials, ask: Ask, margin: float | None) -> Answer:
    """Judge a question at every look for which all trials behind it have ended, up to its first decision.

    margin: the difference in the metric that is too small to matter. Where the trials of the first look have not all
    ended, the verdict is "preliminary".
    """
    plan = study.plan
    judgements: list[Judgement] = []
    for look in plan.looks:
        evidence, read = ask(plan.at(look))
        ended = _ended(read, trials, plan.at(look))
        if judgements and not ended:
            break
        last, seen = evidence, read
        judgements.append(judged_at(evidence, margin, look.level))
        judged = over_looks(judgements)
        verdict = cast(Verdict, judged.verdicts.item())
        if not ended:
            nothing = verdict == "no data"
            return Answer(evidence, judged, "no data" if nothing else "preliminary", [], seen, more=last.decidable)
        if verdict in DECIDED:
            break
    looks = [
        LookTaken(look.seeds, look.level, int(one.n), *map(finite, (one.value, one.low, one.high)))
        for look, one in zip(plan.looks, judgements, strict=False)
    ]
    before = None
    if plan.fixed_before and verdict == "open":
        alone = judged_at(ask(plan.seeds[: plan.fixed_before])[0], margin, LEVEL).verdicts.item()
        before = alone if alone in DECIDED else None
    more = verdict == "open" and last.decidable and not bool(judged.stuck) and len(looks) < len(plan.looks)
    return Answer(last, judged, verdict, looks, seen, _per(margin, last), before, more)


def judged_at(evidence: Evidence, margin: float | None, level: float) -> Judgement:
    """The judgement of one look at evidence; margin: in the metric's unit."""
    return judge(
        *(evidence.sample, evidence.low, evidence.high, evidence.rule, evidence.also),
        margin=_per(margin, evidence),
        level=level,
    )


def _per(margin: float | None, evidence: Evidence) -> float | None:
    """The margin in the unit of the evidence: of a slope, a step's share of what a whole axis may change."""
    return None if margin is None or evidence.span is None else margin / evidence.span


def _ended(read: Sequence[Reading], trials: Trials, seeds: Sequence[int]) -> bool:
    """Return whether every trial of some seeds has ended, in whatever way."""
    cells = {id(cell): cell for one in read for cell in (*one.cells, *one.baseline)}.values()
    return all(seed in cell.trials and cell.trials[seed].hash in trials for cell in cells for seed in seeds)


def finite(number: object) -> float | None:
    """A number for people and files: None where it is infinite or undefined."""
    value = float(cast(float, number))
    return value if np.isfinite(value) else None
