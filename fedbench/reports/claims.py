"""The paper's claims, held against stored trials: evidence with its interval, and what follows from it.

Every check turns a claim into one number a seed. The claim holds if the whole 95 % Student-t interval of its mean is on
the claimed side, fails if all of it is on the other, and is left open in between. Intervals are not corrected for the
number of claims.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from fedbench.base.statistics import Spread, spread
from fedbench.reports.checks.base import Evidence, Group, Values
from fedbench.reports.values import Trials, values_by_seed
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Label, Where, short, text_label
from fedbench.specs.parts import ClaimSpec

Verdict = Literal["holds", "fails", "inconclusive", "no data"]


@dataclass(frozen=True)
class Finding:
    """A claim at one place of the study: what was found and what follows."""

    says: str
    at: str
    evidence: str
    spread: Spread
    verdict: Verdict
    guessed: Sequence[str]


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
        at = dict(zip(rest, labels, strict=True))
        here = [cell for cell in cells if all(cell.labels[axis] == label for axis, label in at.items())]
        if not here:
            continue
        by_label = {tuple(cell.labels[axis] for axis in used): cell for cell in here}
        evidence = claim.evidence(Group(claim, by_label, used, read, study.study.baseline))
        several = {axis: label for axis, label in at.items() if len(study.labels(axis, where)) > 1}
        yield _judge(claim, several, evidence, len(here[0].trials), study.guessed(here[0].labels))


def _judge(
    claim: ClaimSpec, at: Mapping[str, Label], evidence: Evidence, seeds: int, guessed: Sequence[str]
) -> Finding:
    """What follows from the evidence; with less than all seeds nothing does: those that diverged are not chance."""
    where = ", ".join(f"{short(axis)} {text_label(label)}" for axis, label in at.items())
    sample = spread(evidence.sample)
    digits = evidence.digits
    verdict: Verdict = "inconclusive"
    if sample.mean is None:
        return Finding(claim.words, where, "not run, not defined, or diverged", sample, "no data", guessed)
    text = f"{evidence.text} {sample.mean:.{digits}f}"
    if sample.low is None or sample.high is None:
        return Finding(claim.words, where, f"{text} (one seed: no interval)", sample, verdict, guessed)
    text += f" [{sample.low:.{digits}f}, {sample.high:.{digits}f}], "
    text += f"{sample.n} seeds" if sample.n == seeds else f"only {sample.n} of {seeds} seeds"
    if evidence.left:
        text += f", without {', '.join(map(text_label, evidence.left))}: not all seeds there"
    if sample.n == seeds and sample.low > evidence.low and sample.high < evidence.high:
        verdict = "holds"
    elif sample.n == seeds and (sample.high < evidence.low or sample.low > evidence.high):
        verdict = "fails"
    return Finding(claim.words, where, text, sample, verdict, guessed)
