"""The paper's claims, held against stored trials: evidence with its interval, and what follows from it.

Every check turns a claim into one number a seed. The claim holds if the whole 95 % Student-t interval of its mean is on
the claimed side, fails if all of it is on the other, and is left open in between. Intervals are not corrected for the
number of claims.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from statistics import fmean
from typing import Literal

from fedbench.base.statistics import Spread, spread
from fedbench.reports.checks.base import Cells, Evidence, Group, Read, Values
from fedbench.reports.own_numbers import paper_reader
from fedbench.reports.values import Trials, values_by_seed
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import Label, Show, Where, short, text_label
from fedbench.specs.parts import ClaimSpec
from fedbench.store.metrics import METRICS

Verdict = Literal["holds", "fails", "inconclusive", "no data"]
VERDICT_WORDS: dict[Verdict, str] = {
    "holds": "hold",
    "fails": "fail",
    "inconclusive": "inconclusive",
    "no data": "without data",
}


@dataclass(frozen=True)
class OwnNumbers:
    """What the paper's own numbers say of a claim, by the same check: yes or no, and the number."""

    agree: bool
    text: str

    def __str__(self) -> str:
        return f"{'yes' if self.agree else 'no'}, {self.text}"


@dataclass(frozen=True)
class Finding:
    """A claim at one place of the study: what was found and what follows.

    guessed: settings behind it that are a weak guess; paper: what the paper's own numbers say, if there are enough;
    bounds: between which the number must be.
    """

    says: str
    at: str
    evidence: str
    spread: Spread
    verdict: Verdict
    guessed: Sequence[str] = ()
    paper: OwnNumbers | None = None
    bounds: tuple[float, float] = (0.0, math.inf)

    @property
    def remarks(self) -> list[str]:
        """What must be known beside the evidence."""
        guessed = [f"setting guessed: {', '.join(self.guessed)}"] if self.guessed else []
        return [*guessed, f"the paper's own numbers: {self.paper}"] if self.paper else guessed


def check_claims(study: ScaledStudy, trials: Trials) -> list[Finding]:
    """A finding for every claim and place."""
    return [finding for claim in study.study.claims for finding in _findings(study, trials, claim)]


def _findings(study: ScaledStudy, trials: Trials, claim: ClaimSpec) -> Iterator[Finding]:
    if any(not set(labels) & set(study.axes[axis]) for axis, labels in claim.where.items()):
        yield _judge(claim, {}, Evidence("", []), 0)  # the labels that it is about are not run here
        return
    used, taken = list(claim.names), [*claim.names, *claim.over]
    rest = [axis for axis in study.axes if axis not in taken]
    where: Where = {**claim.where, **{axis: list(study.axes[axis]) for axis in taken if axis not in claim.where}}
    cells = study.select(where)
    ours, paper = partial(_together, study, trials, claim.show), paper_reader(study, claim.show)
    for labels in product(*(study.labels(axis, where) for axis in rest)):
        at = dict(zip(rest, labels, strict=True))
        here = [cell for cell in cells if all(cell.labels[axis] == label for axis, label in at.items())]
        if not here:
            continue
        by_label: dict[tuple[Label, ...], Cells] = {}
        for cell in here:
            key = tuple(cell.labels[axis] for axis in used)
            by_label[key] = (*by_label.get(key, ()), cell)
        several = {axis: label for axis, label in at.items() if len(study.labels(axis, where)) > 1}
        seen, watching = _watched(ours)
        group = Group(claim, by_label, used, watching, study.study.baseline)
        found = _judge(claim, several, claim.evidence(group), len(here[0].trials))
        own = _own_numbers(claim, replace(group, read=paper)) if study.scale == "paper" else None
        yield replace(found, guessed=_guessed(study, seen), paper=own)


Seen = list[tuple[Cells, str, Values]]  # what a check has read: cells, metric, and what they have


def _watched(read: Read) -> tuple[Seen, Read]:
    """The same reader, and a list of what it is asked for and answers."""
    seen: Seen = []

    def watching(cells: Cells, metric: str) -> Values:
        seen.append((cells, metric, values := read(cells, metric)))
        return values

    return seen, watching


def _guessed(study: ScaledStudy, seen: Seen) -> list[str]:
    """The settings behind what was read that are a weak guess."""
    found = [key for cells, metric, _ in seen for cell in cells for key in study.marked("W", cell, metric)]
    return list(dict.fromkeys(found))


def _own_numbers(claim: ClaimSpec, group: Group) -> OwnNumbers | None:
    """What the paper's own numbers say of a claim; nothing if it lacks one that the check needs."""
    seen, watching = _watched(group.read)
    evidence = claim.evidence(replace(group, read=watching))
    if len(evidence.sample) != 1 or not all(values for _, _, values in seen):
        return None
    (number,) = evidence.sample
    return OwnNumbers(evidence.low < number < evidence.high, f"{number:.{evidence.digits}f}")


def _together(study: ScaledStudy, trials: Trials, show: Show, cells: Cells, metric: str) -> Values:
    """What every finished seed has for a metric; of several cells pooled, or the mean of those that all have it."""
    if len(cells) == 1 or METRICS.get(metric).pool:
        return values_by_seed(study, cells, trials, metric, show)
    parts = [values_by_seed(study, [cell], trials, metric, show) for cell in cells]
    seeds = set(parts[0]).intersection(*parts)
    return {seed: fmean(part[seed] for part in parts) for seed in sorted(seeds)}


def _judge(claim: ClaimSpec, at: Mapping[str, Label], evidence: Evidence, seeds: int) -> Finding:
    """What follows from the evidence; with less than all seeds nothing does: those that diverged are not chance."""
    where = ", ".join(f"{short(axis)} {text_label(label)}" for axis, label in at.items())
    sample = spread(evidence.sample)
    digits, bounds = evidence.digits, (evidence.low, evidence.high)
    verdict: Verdict = "inconclusive"
    if sample.mean is None:
        return Finding(claim.words, where, "not run, not defined, or diverged", sample, "no data")
    text = f"{evidence.text} {sample.mean:.{digits}f}"
    if sample.low is None or sample.high is None:
        return Finding(claim.words, where, f"{text} (one seed: no interval)", sample, verdict, bounds=bounds)
    text += f" [{sample.low:.{digits}f}, {sample.high:.{digits}f}], "
    text += f"{sample.n} seeds" if sample.n == seeds else f"only {sample.n} of {seeds} seeds"
    if evidence.left:
        text += f", without {', '.join(map(text_label, evidence.left))}: not all seeds there"
    if sample.n == seeds and sample.low > evidence.low and sample.high < evidence.high:
        verdict = "holds"
    elif sample.n == seeds and (sample.high < evidence.low or sample.low > evidence.high):
        verdict = "fails"
    return Finding(claim.words, where, text, sample, verdict, bounds=bounds)


def counted(findings: Sequence[Finding]) -> dict[str, int]:
    """How many claims there are of each verdict, in words."""
    counts = Counter(finding.verdict for finding in findings)
    return {words: counts[verdict] for verdict, words in VERDICT_WORDS.items() if counts[verdict]}
