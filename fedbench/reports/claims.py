"""The paper's claims, held against stored trials: evidence with its interval, and what follows from it.

Every check turns a claim into one number a seed. The claim holds if the whole 95 % Student-t interval of its mean is on
the claimed side, fails if all of it is on the other, and is left open in between. Intervals are not corrected for the
number of claims.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from fedbench.base.statistics import Spread, spread
from fedbench.reports.tables import Trials, values_by_seed
from fedbench.specs.claims import (
    BeatsSpec,
    ClaimSpec,
    ComparableSpec,
    ExtremeSpec,
    HigherSpec,
    PairSpec,
    SomePointSpec,
    TrendSpec,
    WithinSpec,
)
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.parts import Label, Where, text_label
from fedbench.store.metrics import METRICS

Verdict = Literal["holds", "fails", "inconclusive", "no data"]
Values = dict[int, float]  # by seed
UNITS = {"value": "", "difference": " (difference)", "relative": " (relative gain, %)"}


@dataclass(frozen=True)
class Evidence:
    """One number a seed, in words; the claim says that it lies between `low` and `high`.

    left: points of an axis that not all seeds have, and that are left out.
    """

    text: str
    sample: Sequence[float]
    low: float = 0.0
    high: float = float("inf")
    digits: int = 2
    left: Sequence[Label] = ()


@dataclass(frozen=True)
class Finding:
    """A claim at one place of the study: what was found and what follows."""

    says: str
    at: str
    evidence: str
    spread: Spread
    verdict: Verdict
    guessed: Sequence[str]


@dataclass(frozen=True)
class Group:
    """The cells of one place, found by their labels on the axes that the check uses; `value` gives numbers by seed."""

    claim: ClaimSpec
    cells: Mapping[tuple[Label, ...], Cell]
    axes: Sequence[str]
    read: Callable[[Cell, str], Values]
    baseline: Mapping[str, Label]

    def at(self, point: Mapping[str, Label]) -> Values:
        """The claim's value at a point; nothing where it was not run."""
        cell = self.cells.get(tuple(point[axis] for axis in self.axes))
        return self.read(cell, self.claim.value) if cell else {}

    def points(self, axis: str) -> tuple[dict[Label, Values], list[Label]]:
        """The claim's values along the one axis that the check uses, and the points that were run, but lack a seed.

        Numbers are in ascending order, words in the file's.
        """
        labels: list[Label] = [label for (label,) in self.cells]
        numbers = [label for label in labels if isinstance(label, int | float)]
        if len(numbers) == len(labels):
            labels = list(sorted(numbers))
        found = {label: values for label in labels if (values := self.at({axis: label}))}
        seeds = set[int]().union(*found.values())
        left = [label for label, values in found.items() if len(values) < len(seeds)]
        return {label: values for label, values in found.items() if label not in left}, left


def check_claims(study: ScaledStudy, trials: Trials) -> list[Finding]:
    """A finding for every claim and place."""
    return [finding for claim in study.study.claims for finding in _findings(study, trials, claim)]


def _findings(study: ScaledStudy, trials: Trials, claim: ClaimSpec) -> Iterator[Finding]:
    def read(cell: Cell, metric: str) -> Values:
        return values_by_seed(study, [cell], trials, metric, claim.show)

    if any(not set(labels) & set(study.axes[axis]) for axis, labels in claim.where.items()):
        yield _judge(claim, {}, Evidence("", []), 0, [])  # the labels that it is about are not run here
        return
    used = list(claim.names)
    rest = [axis for axis in study.axes if axis not in used]
    where: Where = {**claim.where, **{axis: list(study.axes[axis]) for axis in used if axis not in claim.where}}
    cells = study.select(where)
    for labels in product(*(study.labels(axis, where) for axis in rest)):
        place = dict(zip(rest, labels, strict=True))
        here = [cell for cell in cells if all(cell.labels[axis] == label for axis, label in place.items())]
        if not here:
            continue
        by_label = {tuple(cell.labels[axis] for axis in used): cell for cell in here}
        evidence = CHECKS[claim.check](Group(claim, by_label, used, read, study.study.baseline), claim)
        several = {axis: label for axis, label in place.items() if len(study.labels(axis, where)) > 1}
        yield _judge(claim, several, evidence, len(here[0].trials), study.guessed(here[0].labels))


def _judge(
    claim: ClaimSpec, at: Mapping[str, Label], evidence: Evidence, seeds: int, guessed: Sequence[str]
) -> Finding:
    """What follows from the evidence; with less than all seeds nothing does: those that diverged are not chance."""
    place = ", ".join(f"{axis.rpartition('.')[2]} {text_label(label)}" for axis, label in at.items())
    found = spread(evidence.sample)
    digits = evidence.digits
    verdict: Verdict = "inconclusive"
    if found.mean is None:
        return Finding(claim.says, place, "not run, not defined, or diverged", found, "no data", guessed)
    text = f"{evidence.text} {found.mean:.{digits}f}"
    if found.low is None or found.high is None:
        return Finding(claim.says, place, f"{text} (one seed: no interval)", found, verdict, guessed)
    text += f" [{found.low:.{digits}f}, {found.high:.{digits}f}], "
    text += f"{found.n} seeds" if found.n == seeds else f"only {found.n} of {seeds} seeds"
    if evidence.left:
        text += f", without {', '.join(map(text_label, evidence.left))}: not all seeds there"
    if found.n == seeds and found.low > evidence.low and found.high < evidence.high:
        verdict = "holds"
    elif found.n == seeds and (found.high < evidence.low or found.low > evidence.high):
        verdict = "fails"
    return Finding(claim.says, place, text, found, verdict, guessed)


def _differences(a: Values, b: Values) -> list[float]:
    return [a[seed] - b[seed] for seed in sorted(a) if seed in b]


def _names(claim: ClaimSpec) -> str:
    return METRICS[claim.value].label + UNITS[claim.show]


def _label(point: Mapping[str, Label]) -> str:
    return ", ".join(map(text_label, point.values()))


def _pair(group: Group, claim: PairSpec, sign: int) -> Evidence:
    """The paired differences between two points, positive if the first (sign 1) or the second (-1) is larger."""
    against = claim.against or {axis: group.baseline[axis] for axis in claim.point if axis in group.baseline}
    other = {**claim.point, **against}
    sample = [sign * difference for difference in _differences(group.at(claim.point), group.at(other))]
    names = (_label(claim.point), _label(other))
    text = f"{_names(claim)}, {' - '.join(names[::sign])}:"
    return Evidence(text, sample, digits=METRICS[claim.value].digits)


def beats(group: Group, claim: BeatsSpec) -> Evidence:
    """The paired difference between two points has the claimed sign."""
    return _pair(group, claim, 1 if claim.wins == "higher" else -1)


def comparable(group: Group, claim: ComparableSpec) -> Evidence:
    """The paired difference between two points is within the margin."""
    difference = _pair(group, claim, 1)
    text = f"{difference.text.rstrip(':')} (margin {claim.margin:g}):"
    return Evidence(text, difference.sample, -claim.margin, claim.margin, difference.digits)


def some_point_beats_baseline(group: Group, claim: SomePointSpec) -> Evidence:
    """The point that the other seeds like best, against the baseline: one difference a seed, none of them selected on.

    The maximum over points of noisy means lies above the baseline even if no point is better: hence leave one out.
    """
    points, left = group.points(claim.axis)
    baseline = points.pop(group.baseline[claim.axis], {})
    sample, chosen = leave_one_out(points, baseline, np.argmax)
    picked = ", ".join(sorted({text_label(label) for label in chosen}))
    text = f"{_names(claim)}, best {claim.axis.rpartition('.')[2]} of the other seeds ({picked}) - baseline:"
    return Evidence(text, sample, digits=METRICS[claim.value].digits, left=left)


def leave_one_out(
    points: Mapping[Label, Values], other: Values, choose: Callable[[Any], Any]
) -> tuple[list[float], list[Label]]:
    """For every seed: (value at the point that `choose` takes by the mean of all other seeds) - other; the choices.

    A single seed has no others: it is its own, and proves nothing.
    """
    seeds = sorted(set(other).intersection(*points.values())) if points else []
    sample, chosen = [], []
    for seed in seeds:
        rest = [s for s in seeds if s != seed] or [seed]
        label = list(points)[int(choose([np.mean([values[s] for s in rest]) for values in points.values()]))]
        sample.append(points[label][seed] - other[seed])
        chosen.append(label)
    return sample, chosen


def trend(group: Group, claim: TrendSpec) -> Evidence:
    """The least-squares slope over the points of the axis, in order (steps count alike), has the claimed sign."""
    found, left = group.points(claim.axis)
    points = list(found.values())
    if len(points) < 2:
        return Evidence("", [])
    sign = 1 if claim.direction == "rises" else -1
    slopes = [float(np.polyfit(range(len(points)), [own[seed] for own in points], 1)[0]) for seed in sorted(points[0])]
    text = f"{_names(claim)}, {'rise' if claim.direction == 'rises' else 'fall'} a step of {claim.axis}:"
    return Evidence(text, [sign * slope for slope in slopes], digits=METRICS[claim.value].digits + 1, left=left)


def extreme(group: Group, claim: ExtremeSpec) -> Evidence:
    """The value at one point is below (above) that at its rival, which the other seeds choose."""
    points, left = group.points(claim.axis)
    own = points.pop(claim.at, {})
    choose, sign = (np.argmin, 1) if claim.which == "smallest" else (np.argmax, -1)
    sample, chosen = leave_one_out(points, own, choose)
    rivals = ", ".join(sorted({text_label(label) for label in chosen}))
    text = f"{_names(claim)}, distance to the next ({claim.axis.rpartition('.')[2]} {rivals}):"
    return Evidence(text, [sign * value for value in sample], digits=METRICS[claim.value].digits, left=left)


def within(group: Group, claim: WithinSpec) -> Evidence:
    """The value lies between two bounds."""
    (cell,) = group.cells.values()
    bounds = f"between {claim.low:g} and {claim.high:g}"
    if claim.low == float("-inf") or claim.high == float("inf"):
        bounds = f"below {claim.high:g}" if claim.low == float("-inf") else f"above {claim.low:g}"
    values = list(group.read(cell, claim.value).values())
    return Evidence(f"{_names(claim)} ({bounds}):", values, claim.low, claim.high, METRICS[claim.value].digits)


def higher_than(group: Group, claim: HigherSpec) -> Evidence:
    """The value is higher than another metric of the same trials."""
    (cell,) = group.cells.values()
    sample = _differences(group.read(cell, claim.value), group.read(cell, claim.than))
    text = f"{METRICS[claim.value].label} - {METRICS[claim.than].label}:"
    return Evidence(text, sample, digits=METRICS[claim.value].digits)


CHECKS: Mapping[str, Callable[[Group, Any], Evidence]] = {
    "beats": beats,
    "comparable": comparable,
    "some_point_beats_baseline": some_point_beats_baseline,
    "trend": trend,
    "extreme": extreme,
    "within": within,
    "higher_than": higher_than,
}
