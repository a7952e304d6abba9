"""The paper's claims, held against stored trials: evidence with its interval, and what follows from it.

Every check turns a claim into numbers by seed, and `fedbench.analysis.statistics.verdicts` judges them: a claim holds
if the whole 95 % interval is on the claimed side, fails if all of it is on the other, and is open in between. Each of
both decisions is wrong in at most 2.5 % of all cases, for one claim; q values tell how many are false among all claims
of a study.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pandas as pd

from fedbench.analysis.checks.base import Cells, Check, Evidence, Group, Read
from fedbench.analysis.paper_values import paper_reader
from fedbench.analysis.statistics.spread import Spread
from fedbench.analysis.statistics.verdicts import Array, Verdict, deciding, judge, q_values
from fedbench.analysis.values import Trials, outcomes
from fedbench.metrics import METRICS
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import Label, Show, Where, named, short, text_label
from fedbench.specs.parts import ClaimSpec

VERDICT_WORDS: dict[Verdict, str] = {"holds": "hold", "fails": "fail", "open": "open", "no data": "without data"}
DECIDED = ("holds", "fails")
SURE = 0.05  # the largest q value of decisions that stand among all of a study's
NOT_RUN = "not run, not defined, or diverged"
NOTHING = Spread(None, None, 0, None, None)
DIVERGENCE = "a trial that diverged where the other did not never counts in its favour"


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
    bounds: between which the number must be; p: of the verdict that is nearer, None without data; q: the share of false
    decisions in expectation among this study's claims with a q value no larger than this one's.
    """

    says: str
    at: str
    evidence: str
    spread: Spread
    verdict: Verdict
    guessed: Sequence[str] = ()
    paper: OwnNumbers | None = None
    bounds: tuple[float, float] = (0.0, math.inf)
    p: float | None = None
    q: float | None = None

    @property
    def remarks(self) -> list[str]:
        """What must be known beside the evidence."""
        tested = self.q is not None and (self.spread.low is not None or (self.p or 0.0) < 1)
        guessed = [f"q = {q_text(self.q or 0.0)}"] if tested else []
        guessed += [f"setting guessed: {', '.join(self.guessed)}"] if self.guessed else []
        return [*guessed, f"the paper's own numbers: {self.paper}"] if self.paper else guessed


def q_text(q: float) -> str:
    """A q value in two digits, or as many as show that it is above the largest of decisions that stand."""
    digits = next(digits for digits in range(2, 18) if (float(f"{q:.{digits}g}") > SURE) == (q > SURE))
    return f"{q:.{digits}g}"


def check_claims(study: ScaledStudy, trials: Trials) -> list[Finding]:
    """A finding for every claim and place."""
    found = [finding for claim in study.study.claims for finding in _findings(study, trials, claim)]
    known = [number for number, finding in enumerate(found) if finding.p is not None]
    for number, q in zip(known, q_values([found[number].p or 0.0 for number in known]), strict=True):
        found[number] = replace(found[number], q=q)
    return found


def _findings(study: ScaledStudy, trials: Trials, claim: ClaimSpec) -> Iterator[Finding]:
    if any(not set(labels) & set(study.axes[axis]) for axis, labels in claim.where.items()):
        yield Finding(claim.words, "", NOT_RUN, NOTHING, "no data")  # the labels that it is about are not run here
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
        group = Group(claim, by_label, used, watching, study.study.baseline, len(here[0].trials))
        left = _left_out(study, claim)
        found = _judge(claim, several, group.nothing() if left else claim.evidence(group), seen)
        own = _own_numbers(claim, replace(group, read=paper, seeds=1)) if study.scale == "paper" else None
        text = f"{left} is left out, and the claim is about it, too" if left else found.evidence
        yield replace(found, evidence=text, guessed=_guessed(study, seen), paper=own)


def _left_out(study: ScaledStudy, claim: ClaimSpec) -> str:
    """A point that the claim needs and options left out, in words; empty if there is none."""
    for axis in claim.swept if isinstance(claim, Check) else ():
        needed = [label for label in study.whole[axis] if label in claim.where.get(axis, study.whole[axis])]
        if missing := [label for label in needed if label not in study.axes[axis]]:
            return named(axis, missing[0])
    return ""


Seen = list[tuple[Cells, str, Array]]  # what a check has read: cells, metric, and what they have


def _watched(read: Read) -> tuple[Seen, Read]:
    """The same reader, and a list of what it is asked for and answers."""
    seen: Seen = []

    def watching(cells: Cells, metric: str) -> Array:
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
    number = float(judge(evidence.sample, rule=evidence.rule).value)
    if not seen or any(np.isnan(values).any() for _, _, values in seen) or math.isnan(number):
        return None
    return OwnNumbers(evidence.low < number < evidence.high, f"{number:.{evidence.digits}f}")


def _together(study: ScaledStudy, trials: Trials, show: Show, cells: Cells, metric: str) -> Array:
    """What every seed has for a metric; of several cells pooled, or the mean of those that all have it."""
    if len(cells) == 1 or METRICS.get(metric).pool:
        return outcomes(study, cells, trials, metric, show)
    return np.asarray(np.mean([outcomes(study, [cell], trials, metric, show) for cell in cells], axis=0))


def _judge(claim: ClaimSpec, at: Mapping[str, Label], evidence: Evidence, seen: Seen) -> Finding:
    """What follows from the evidence, in words."""
    where = ", ".join(f"{short(axis)} {text_label(label)}" for axis, label in at.items())
    found = judge(evidence.sample, evidence.low, evidence.high, evidence.rule, evidence.also)
    verdict = cast(Verdict, found.verdicts.item())
    if verdict == "no data":
        return Finding(claim.words, where, f"{NOT_RUN}{_diverged(claim, seen)}", NOTHING, verdict)
    value, low, high = (
        float(number) if np.isfinite(number) else None for number in (found.value, found.low, found.high)
    )
    seeds, n, digits = len(np.asarray(evidence.sample)), int(found.n), evidence.digits
    text = evidence.text if value is not None else f"{evidence.text} no number"
    if value is not None:
        text += f" {value:.{digits}f}"
        text += " (one seed: no interval)" if n == 1 else ""
        if low is not None or high is not None:
            text += f" [{_bound(low, digits)}, {_bound(high, digits)}]"
        text += f" at {text_label(evidence.names[deciding(evidence.sample, evidence.rule)])}" if evidence.names else ""
        text += "" if n <= 1 else f", {n} seeds" if n == seeds else f", {n} of {seeds} seeds"
    text += f"; {evidence.remark}" if evidence.remark else ""
    bounds = (evidence.low, evidence.high)
    spread = Spread(value, None, n, low, high)
    p = None if n == 1 and verdict == "open" else float(found.p)  # one seed is no test
    return Finding(*(claim.words, where, text + _diverged(claim, seen), spread, verdict), bounds=bounds, p=p)


def _bound(bound: float | None, digits: int) -> str:
    return "open" if bound is None else f"{bound:.{digits}f}"


def _diverged(claim: ClaimSpec, seen: Seen) -> str:
    """Which of the cells that were read diverged, or never reached what the metric waits for, and in how many seeds."""
    counts: dict[str, tuple[int, int]] = {}
    for cells, _, values in seen:
        if lost := int(np.isinf(values).sum()):
            names = [text_label(cells[0].labels[axis]) for axis in claim.names] or ["it"]
            counts[", ".join(names)] = lost, len(values)
    if not counts:
        return ""
    word = "not reached by" if METRICS.get(claim.value).reaches else "diverged:"
    told = ", ".join(f"{name} in {lost} of {seeds} seeds" for name, (lost, seeds) in counts.items())
    return f"; {word} {told} ({DIVERGENCE})"


def counted(findings: Sequence[Finding]) -> dict[str, int]:
    """How many claims there are of each verdict, in words; and how many decisions stand among all of the study's."""
    counts = Counter(finding.verdict for finding in findings)
    sure = Counter(finding.verdict for finding in findings if finding.q is not None and finding.q <= SURE)
    return {
        f"{words} ({sure[verdict]} with q at most {SURE:g})" if verdict in DECIDED else words: counts[verdict]
        for verdict, words in VERDICT_WORDS.items()
        if counts[verdict]
    }


def claims_frame(findings: list[Finding]) -> pd.DataFrame:
    """The findings, a row each."""
    return pd.DataFrame(
        {
            "claim": finding.says,
            "at": finding.at,
            "evidence": finding.evidence,
            "mean": finding.spread.mean,
            "low95": finding.spread.low,
            "high95": finding.spread.high,
            "n": finding.spread.n,
            "p": finding.p,
            "q": finding.q,
            "verdict": finding.verdict,
            "paper": str(finding.paper or ""),
            "guessed": ", ".join(finding.guessed),
        }
        for finding in findings
    )
