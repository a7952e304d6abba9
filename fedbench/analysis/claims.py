"""Checks of the paper's claims on stored trials: evidence with its interval, and the verdict that follows.

Every check turns a claim into numbers by seed, and `fedbench.analysis.statistics.verdicts` judges them at the looks of
the study's plan: a claim holds if the whole interval is on the claimed side, fails if all of it is on the other, is too
small to matter if all of it is within the margin, and is open otherwise. Each of these decisions is wrong in at most
2.5 % of all cases, for one claim, over all looks; q values tell how many are false among all claims of a study.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from fedbench.analysis.checks.base import Cells, Check, Evidence, Group, Read
from fedbench.analysis.looks import Answer, CellKey, LookTaken, Reading, answer, finite
from fedbench.analysis.paper_values import paper_reader
from fedbench.analysis.statistics.spread import Spread
from fedbench.analysis.statistics.verdicts import DECIDED, LEVEL, Array, Verdict, deciding, judge, q_values
from fedbench.analysis.values import Trials, baseline_cells, outcomes
from fedbench.metrics import METRICS
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import Label, Show, Where, named, short, text_label
from fedbench.specs.parts import ClaimSpec

VERDICT_WORDS: dict[Verdict, str] = {
    "holds": "hold",
    "fails": "fail",
    "too small": "are too small to matter",
    "open": "open",
    "preliminary": "preliminary",
    "no data": "without data",
}
SURE = 0.05  # the largest q value of decisions that stand among all of a study's
NOT_RUN = "not run, not defined, or diverged"
NOTHING = Spread(None, None, 0, None, None)
DIVERGENCE = "a trial that diverged where the other did not never counts in its favour"


@dataclass(frozen=True)
class OwnNumbers:
    """Whether the paper's own numbers agree with a claim, by the same check, and the number."""

    agree: bool
    text: str

    def __str__(self) -> str:
        return f"{'yes' if self.agree else 'no'}, {self.text}"


@dataclass(frozen=True)
class Finding:
    """A claim at one point of the study: the evidence and the verdict.

    guessed: settings behind it that are a weak guess; paper: what the paper's own numbers say, if there are enough;
    bounds: between which the number must be; p: of the decision that was made, or of the nearest one, over all looks,
    None without data; q: the share of false decisions in expectation among this study's claims with a q value no larger
    than this one's; margin: within which the number is too small to matter, None where no margin applies; looks: what
    each look of the plan saw; cells: the cells behind it; before: the decision of an earlier plan with one look, where
    this plan's levels leave it open; more: whether a look that is still to come may decide it; source: the numbers by
    seed behind it, None without data.
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
    margin: float | None = None
    looks: Sequence[LookTaken] = ()
    cells: frozenset[CellKey] = frozenset()
    before: Verdict | None = None
    more: bool = False
    sentence: str = ""
    source: Evidence | None = None

    @property
    def decision(self) -> str:
        """Return the verdict in words, with the margin if the verdict depends on it."""
        return f"too small to matter (margin {self.margin:g})" if self.verdict == "too small" else self.verdict

    @property
    def remarks(self) -> list[str]:
        """Return remarks on the evidence: q value, margin, guessed settings, the paper's own numbers."""
        found = [f"q = {q_text(self.q or 0.0)}"] if self._tested else []
        found += [*self._margin, *self._known]
        return [*found, f"the paper's own numbers: {self.paper}"] if self.paper else found

    @property
    def in_words(self) -> str:
        """Return the evidence and the remarks on it in whole sentences."""
        said = [self.sentence or sentence(self.evidence)]
        said += [f"Its q value is {q_text(self.q or 0.0)}"] if self._tested else []
        said += [f"Less than {text.removeprefix('margin ')} is too small to matter" for text in self._margin]
        said += map(sentence, self._known)
        if self.paper:
            said.append(f"The paper's own numbers say {'yes' if self.paper.agree else 'no'} ({self.paper.text})")
        return " ".join(f"{text}." for text in said)

    @property
    def _tested(self) -> bool:
        return self.q is not None and (self.spread.low is not None or (self.p or 0.0) < 1)

    @property
    def _margin(self) -> list[str]:
        return [f"margin {self.margin:g}"] if self.margin is not None and self.verdict == "open" else []

    @property
    def _known(self) -> list[str]:
        found = []
        if self.before:
            found.append(
                f"'{self.before}' by the earlier plan with one look at 5 %; a plan with more looks asks for more"
            )
        return [*found, *([f"setting guessed: {', '.join(self.guessed)}"] if self.guessed else [])]


def q_text(q: float) -> str:
    """Return a q value with two digits, or as many as are needed to see on which side of 5 % it is."""
    digits = next(digits for digits in range(2, 18) if (float(f"{q:.{digits}g}") > SURE) == (q > SURE))
    return f"{q:.{digits}g}"


def check_claims(study: ScaledStudy, trials: Trials) -> list[Finding]:
    """Return a finding for every claim at every point of the axes that its check does not use."""
    return with_q([finding for claim in study.study.claims for finding in findings_of(study, trials, claim)])


def with_q(found: list[Finding]) -> list[Finding]:
    """Return findings with q values over all findings that were tested."""
    known = [number for number, finding in enumerate(found) if finding.p is not None]
    for number, q in zip(known, q_values([found[number].p or 0.0 for number in known]), strict=True):
        found[number] = replace(found[number], q=q)
    return found


def findings_of(study: ScaledStudy, trials: Trials, claim: ClaimSpec) -> Iterator[Finding]:
    """A finding for every place of a claim, without q values."""
    if any(not set(labels) & set(study.axes[axis]) for axis, labels in claim.where.items()):
        yield Finding(claim.words, "", NOT_RUN, NOTHING, "no data")  # the labels that it is about are not run here
        return
    used, taken = list(claim.names), [*claim.names, *claim.over]
    rest = [axis for axis in study.axes if axis not in taken]
    where: Where = {**claim.where, **{axis: list(study.axes[axis]) for axis in taken if axis not in claim.where}}
    cells = study.select(where)
    paper = paper_reader(study, claim.show)
    margin = None if claim.show == "relative" else study.plan.margin(claim.value)
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
        left = _left_out(study, claim)

        def ask(
            seeds: Sequence[int], by_label: Mapping[tuple[Label, ...], Cells] = by_label, left: str = left
        ) -> tuple[Evidence, Sequence[Reading]]:
            read, watching = _watched(study, claim.show, partial(_together, study, trials, claim.show, seeds))
            group = Group(claim, by_label, used, watching, study.study.baseline, len(seeds))
            return group.nothing() if left else claim.evidence(group), read

        answered = answer(study, trials, ask, margin)
        found = _finding(claim, several, answered)
        group = Group(claim, by_label, used, paper, study.study.baseline, 1)
        own = _own_numbers(claim, group, study) if study.scale == "paper" else None
        text = f"{left} is left out, and the claim is about it, too" if left else found.evidence
        yield replace(found, evidence=text, guessed=_guessed(study, answered.read), paper=own)


def _left_out(study: ScaledStudy, claim: ClaimSpec) -> str:
    """Return the name of a point that the claim needs and options left out; empty if there is none."""
    for axis in claim.swept if isinstance(claim, Check) else ():
        needed = [label for label in study.whole[axis] if label in claim.where.get(axis, study.whole[axis])]
        if missing := [label for label in needed if label not in study.axes[axis]]:
            return named(axis, missing[0])
    return ""


def _watched(study: ScaledStudy, show: Show, read: Read) -> tuple[list[Reading], Read]:
    """Return a reader that notes everything that it reads, and the list of its notes."""
    seen: list[Reading] = []

    def watching(cells: Cells, metric: str) -> Array:
        baseline = () if show == "value" else tuple(baseline_cells(study, cells))
        seen.append(Reading(cells, metric, values := read(cells, metric), baseline))
        return values

    return seen, watching


def _guessed(study: ScaledStudy, read: Sequence[Reading]) -> list[str]:
    """Return the settings behind the values that were read that are weak guesses."""
    found = [key for one in read for cell in one.cells for key in study.marked("W", cell, one.metric)]
    return list(dict.fromkeys(found))


def _own_numbers(claim: ClaimSpec, group: Group, study: ScaledStudy) -> OwnNumbers | None:
    """Return what the paper's own numbers say about a claim; None if it lacks one that the check needs."""
    seen, watching = _watched(study, "value", group.read)
    evidence = claim.evidence(replace(group, read=watching))
    number = float(judge(evidence.sample, rule=evidence.rule).value)
    if not seen or any(np.isnan(one.values).any() for one in seen) or math.isnan(number):
        return None
    return OwnNumbers(evidence.low < number < evidence.high, f"{number:z.{evidence.digits}f}")


def _together(study: ScaledStudy, trials: Trials, show: Show, seeds: Sequence[int], cells: Cells, metric: str) -> Array:
    """Return a metric of some cells by seed: pooled, or the mean over cells where all of them have it."""
    if len(cells) == 1 or METRICS.get(metric).pool:
        return outcomes(study, cells, trials, metric, show, seeds)
    return np.asarray(np.mean([outcomes(study, [cell], trials, metric, show, seeds) for cell in cells], axis=0))


def _finding(claim: ClaimSpec, at: Mapping[str, Label], found: Answer) -> Finding:
    """Return the finding for an answer."""
    where = ", ".join(f"{short(axis)} {text_label(label)}" for axis, label in at.items())
    diverged = _diverged(claim, found.read)
    if found.verdict == "no data":
        return Finding(
            claim.words, where, f"{NOT_RUN}{diverged}", NOTHING, "no data", cells=found.cells, more=found.more
        )
    evidence, judged = found.evidence, found.judged
    value, low, high = map(finite, (judged.value, judged.low, judged.high))
    n = int(judged.n)
    spread = Spread(value, None, n, low, high)
    more = [sentence(diverged[2:])] if diverged else []
    tested = found.verdict != "preliminary" and not (n == 1 and found.verdict == "open")  # one seed is no test
    return Finding(
        says=claim.words,
        at=where,
        evidence=evidence_text(evidence, spread, found.looks) + diverged,
        sentence=". ".join([evidence_sentence(evidence, spread, found.looks), *more]),
        spread=spread,
        verdict=found.verdict,
        bounds=(evidence.low, evidence.high),
        p=float(judged.p) if tested else None,
        margin=found.margin,
        looks=found.looks,
        cells=found.cells,
        before=found.before,
        more=found.more,
        source=evidence,
    )


def evidence_text(evidence: Evidence, spread: Spread, looks: Sequence[LookTaken]) -> str:
    """Evidence in words: what it is, the mean with its interval, how many seeds, and at which look of the plan."""
    value, n, digits = spread.mean, spread.n, evidence.digits
    seeds = len(np.asarray(evidence.sample))
    if value is None:
        text = f"{evidence.text} no number"
    else:
        text = f"{evidence.text} {value:z.{digits}f}"
        text += " (one seed: no interval)" if n == 1 else ""
        if spread.low is not None or spread.high is not None:
            text += f" [{_bound(spread.low, digits)}, {_bound(spread.high, digits)}]"
        text += f" at {text_label(evidence.names[deciding(evidence.sample, evidence.rule)])}" if evidence.names else ""
        text += "" if n <= 1 else f", {n} seeds" if n == seeds else f", {n} of {seeds} seeds"
        if looks and looks[-1].level < LEVEL:
            text += f", look {len(looks)}: a {100 * (1 - looks[-1].level):.4g} % interval"
    return text + (f"; {evidence.remark}" if evidence.remark else "")


def evidence_sentence(evidence: Evidence, spread: Spread, looks: Sequence[LookTaken]) -> str:
    """Return the evidence in whole sentences, without the last full stop."""
    subject, _, what = evidence.text.removesuffix(":").rpartition(", ")
    value, n, digits = spread.mean, spread.n, evidence.digits
    seeds = len(np.asarray(evidence.sample))
    text = f"In {subject}, {what}" if subject else sentence(what)
    if value is None:
        text += " has no number"
    else:
        text += f" is {value:z.{digits}f}"
        text += f" at {text_label(evidence.names[deciding(evidence.sample, evidence.rule)])}" if evidence.names else ""
        of = f"{n} seeds" if n == seeds else f"{n} of {seeds} seeds"
        text += " in one seed, so that it has no interval" if n == 1 else f", the mean over {of}" if n else ""
    if spread.low is not None or spread.high is not None:
        looked = bool(looks) and looks[-1].level < LEVEL
        level = f"{100 * (1 - looks[-1].level):.4g} % interval at look {len(looks)}" if looked else "95 % interval"
        low, high = (None if bound is None else _bound(bound, digits) for bound in (spread.low, spread.high))
        if low is None or high is None:
            text += f". Its {level} " + (
                f"has no upper end, and begins at {low}" if low else f"has no lower end, and ends at {high}"
            )
        else:
            text += f". Its {level} goes from {low} to {high}"
    return text + (f". {sentence(evidence.remark)}" if evidence.remark else "")


def sentence(text: str) -> str:
    """Return a text with a capital letter."""
    return text[:1].upper() + text[1:]


def _bound(bound: float | None, digits: int) -> str:
    return "open" if bound is None else f"{bound:z.{digits}f}"


def _diverged(claim: ClaimSpec, read: Sequence[Reading]) -> str:
    """Which of the cells that were read diverged, or never reached what the metric waits for, and in how many seeds."""
    counts: dict[str, tuple[int, int]] = {}
    for one in read:
        if lost := int(np.isinf(one.values).sum()):
            names = [text_label(one.cells[0].labels[axis]) for axis in claim.names] or ["it"]
            counts[", ".join(names)] = lost, len(one.values)
    if not counts:
        return ""
    word = "not reached by" if METRICS.get(claim.value).reaches else "diverged:"
    told = ", ".join(f"{name} in {lost} of {seeds} seeds" for name, (lost, seeds) in counts.items())
    return f"; {word} {told} ({DIVERGENCE})"


def counted(findings: Sequence[Finding], words_of: Mapping[Verdict, str] = VERDICT_WORDS) -> dict[str, int]:
    """Return the number of findings by verdict, in words, and how many decisions stand by their q values."""
    counts = Counter(finding.verdict for finding in findings)
    sure = Counter(finding.verdict for finding in findings if finding.q is not None and finding.q <= SURE)
    return {
        f"{words} ({sure[verdict]} with q at most {SURE:g})" if verdict in DECIDED else words: counts[verdict]
        for verdict, words in words_of.items()
        if counts[verdict]
    }


def claims_frame(findings: Sequence[Finding]) -> pd.DataFrame:
    """Return claims.csv: a row for each claim and point."""
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
            "verdict": "too small to matter" if finding.verdict == "too small" else finding.verdict,
            "margin": finding.margin,
            "looks": len(finding.looks),
            "level": finding.looks[-1].level if finding.looks else None,
            "paper": str(finding.paper or ""),
            "guessed": ", ".join(finding.guessed),
        }
        for finding in findings
    )
