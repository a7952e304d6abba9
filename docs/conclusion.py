"""The conclusion of the results page: which methods beat the baseline, what is open, what the paper's numbers say.

Methods are judged as claims are, by the check `beats`; there are no statistics here.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from results_page import WITHIN, Shown, distances, published

from fedbench.analysis.checks.beats import Beats
from fedbench.analysis.claims import DIVERGENCE, SURE, Finding, check_claims, q_text
from fedbench.analysis.statistics.verdicts import DECIDED, q_values
from fedbench.render.study_sheets import DRAW_MARK, draw_mark
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import named
from fedbench.specs.parts import METHOD, ClaimSpec

WIDTH = 120  # characters of a line
FEW_SEEDS = 3  # a comparison with fewer seeds says so
MOST_LISTED = 3  # settings of one method; where there are more, they are counted
Source = tuple[
    tuple[str, ...], tuple[str, ...], int | None
]  # trials of both sides, and over how many rounds they score


CLAIM_VERBS = {"holds": "holds", "fails": "fails", "too small": "is about a difference that is too small to matter"}


@dataclass(frozen=True)
class Judged:
    """A method against the baseline, or a claim of a study, in one setting.

    name: the method or the claim; at: the setting; lost: which side diverged in how many seeds, in words.
    """

    name: str
    at: str
    finding: Finding
    lost: str = ""

    @property
    def number(self) -> str:
        """The mean difference in points with its interval, seeds and q value; what diverged, if none."""
        found, spread = self.finding, self.finding.spread
        if spread.mean is None or spread.low is None or spread.high is None:
            decided = found.verdict in DECIDED and found.q is not None
            return f"{self.lost}, q = {q_text(found.q or 0.0)}" if decided else self.lost
        interval = f"{spread.mean:+z.2f} [{spread.low:+z.2f}, {spread.high:+z.2f}]"
        return f"{interval}, {spread.n} seeds, q = {q_text(found.q or 0.0)}"

    @property
    def limits(self) -> str:
        """Why little can be said: divergence, or fewer than three seeds; empty if neither is the case."""
        seeds = self.finding.spread.n
        return self.lost or (f"{seeds} seed{'s' * (seeds != 1)}" if seeds < FEW_SEEDS else "")


@dataclass(frozen=True)
class Part:
    """What the conclusion says about one study at one scale; again: comparisons of the same trials as earlier ones."""

    shown: Shown
    judged: Sequence[Judged]
    again: int = 0

    @property
    def has_methods(self) -> bool:
        """Whether methods were compared; if not, its claims were judged."""
        return METHOD in self.shown.study.study.baseline

    @property
    def baseline(self) -> str:
        """The baseline in words."""
        return ", ".join(named(axis, label) for axis, label in self.shown.study.study.baseline.items())

    def verdict(self, verdict: str) -> list[Judged]:
        """What was judged so."""
        return [each for each in self.judged if each.finding.verdict == verdict]


def conclusion() -> str:
    """The section of the page: the counts, each study in a list, the paper's numbers, and how to read all this."""
    found = parts(published()[0])
    studies = [_wrapped(f"- {_methods(part) if part.has_methods else _claims(part)}", "  ") for part in found]
    paper = [_wrapped(text) for part in found if (text := _paper(part))]
    return "\n\n".join(
        ["## Conclusion", _wrapped(_counts(found)), "\n".join(studies), *paper, _wrapped(_reading(found))]
    )


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False, subsequent_indent=indent)


def parts(shown: Iterable[Shown]) -> list[Part]:
    """Every study with its comparisons or claims, and q values over all of them; each comparison of trials once."""
    found, seen = list[Part](), set[Source]()
    for each in shown:
        if METHOD not in each.study.study.baseline:
            found.append(Part(each, _judged_claims(each)))
            continue
        compared, fresh = _compared(each), dict[Source, Judged]()
        for source, judged in compared:
            if source not in seen:
                fresh.setdefault(source, judged)
        seen |= fresh.keys()
        found.append(Part(each, list(fresh.values()), again=len(compared) - len(fresh)))
    return with_q(found)


def with_q(found: Sequence[Part]) -> list[Part]:
    """The same, with the q values of all that was judged together."""
    known = [each.finding.p for part in found for each in part.judged if each.finding.p is not None]
    values = iter(q_values(known))

    def renewed(each: Judged) -> Judged:
        return each if each.finding.p is None else replace(each, finding=replace(each.finding, q=next(values)))

    return [replace(part, judged=[renewed(each) for each in part.judged]) for part in found]


def _compared(shown: Shown) -> list[tuple[Source, Judged]]:
    """Every method against the baseline of the same setting; a row of the baseline's own trials is left out."""
    study, baseline = shown.study, shown.study.study.baseline
    cells = {tuple(cell.labels.values()): cell for cell in study.cells}
    pairs = list[tuple[Cell, Cell]]()
    for cell in study.cells:
        base = cells.get(tuple({**cell.labels, **baseline}.values()))
        if base and _hashes(cell) != _hashes(base) and any(hash_ in shown.trials for hash_ in _hashes(cell)):
            pairs.append((cell, base))
    claims = [
        Beats(
            says="",
            check="beats",
            point={axis: cell.labels[axis] for axis in baseline},
            where={axis: [label] for axis, label in cell.labels.items() if axis not in baseline},
        )
        for cell, _ in pairs
    ]
    findings = check_claims(_with_claims(study, claims), shown.trials)
    return [
        ((_hashes(cell), _hashes(base), study.score.rounds), _judged(shown, cell, base, finding))
        for (cell, base), finding in zip(pairs, findings, strict=True)
        if finding.verdict != "no data"
    ]


def _judged(shown: Shown, cell: Cell, base: Cell, finding: Finding) -> Judged:
    baseline = shown.study.study.baseline
    name, other = (", ".join(named(axis, one.labels[axis]) for axis in baseline) for one in (cell, base))
    lost = [_lost(shown, cell, ""), _lost(shown, base, f"{other} ")]
    mark = draw_mark(shown.study, [cell])
    return Judged(f"{name}{mark}", _setting(shown.study, cell), finding, "; ".join(filter(None, lost)))


def _lost(shown: Shown, cell: Cell, who: str) -> str:
    """In how many seeds the trials of a cell diverged; empty if none did."""
    trials = [trial for hash_ in _hashes(cell) if (trial := shown.trials.get(hash_))]
    diverged = sum(trial.status == "diverged" for trial in trials)
    return f"{who}diverged in {diverged} of {len(trials)} seeds" if diverged else ""


def _setting(study: ScaledStudy, cell: Cell) -> str:
    """The setting of a cell: its labels beside the baseline's axes, where the study has more than one."""
    axes = [axis for axis in study.axes if axis not in study.study.baseline and len(study.axes[axis]) > 1]
    return ", ".join(named(axis, cell.labels[axis]) for axis in axes)


def _hashes(cell: Cell) -> tuple[str, ...]:
    return tuple(config.hash for config in cell.trials.values())


def _with_claims(study: ScaledStudy, claims: Sequence[ClaimSpec]) -> ScaledStudy:
    return replace(study, study=study.study.model_copy(update={"claims": list(claims)}))


def _judged_claims(shown: Shown) -> list[Judged]:
    """The study's own claims; a claim about one point of an axis names it, too."""
    study, judged = shown.study, list[Judged]()
    for claim in study.study.claims:
        single = {axis: study.labels(axis, claim.where) for axis in claim.where if len(study.axes[axis]) > 1}
        at = [named(axis, labels[0]) for axis, labels in single.items() if len(labels) == 1 and axis not in claim.names]
        for finding in check_claims(_with_claims(study, [claim]), shown.trials):
            judged.append(Judged(claim.words, ", ".join(filter(None, [*at, finding.at])), finding))
    return judged


def _counts(found: Sequence[Part]) -> str:
    """How many comparisons were decided, and how many of all decisions stand among all that was judged."""
    compared = [each.finding.verdict for part in found if part.has_methods for each in part.judged]
    better, worse, small, left = (compared.count(verdict) for verdict in ("holds", "fails", "too small", "open"))
    unfinished = compared.count("preliminary")
    judged = [each.finding for part in found for each in part.judged if each.finding.p is not None]
    sure = [each.q is not None and each.q <= SURE for each in judged if each.verdict in DECIDED]
    others = " or ".join(dict.fromkeys(part.baseline for part in found if part.has_methods))
    return (
        f"Of {len(compared)} comparisons of a method with {others}, {better} {_finds(better)} the method better, "
        f"{worse} {_finds(worse)} it worse, {small} {_finds(small)} a difference that is too small to matter, "
        f"{left} {_are(left)} open, and {unfinished} {_are(unfinished)} preliminary (planned seeds have not been run). "
        f"{sum(sure)} of the {len(sure)} decisions of this section {'has' if sum(sure) == 1 else 'have'} a q value "
        f"of at most {SURE:g}."
    )


def _reading(found: Sequence[Part]) -> str:
    """How the section is to be read."""
    judged = [each for part in found for each in part.judged if each.finding.p is not None]
    draws = f" {DRAW_MARK} marks numbers that rest on one draw of the proxy set for each seed (see `spread_sources`)."
    return (
        "Methods are compared seed by seed, by the check `beats` of [claims](studies.md#claims). A method is better or "
        "worse if the whole 95 % interval (in brackets) of the mean difference in test accuracy, in points, is above "
        f"or below 0; the difference is too small to matter if two one-sided tests place it within the margin of 0.5 "
        "points; else the comparison is open. It is preliminary until all planned seeds have ended. "
        f"{DIVERGENCE.capitalize()}. The q values are over all {len(judged)} "
        "comparisons and claims of this section."
        f"{draws if any(DRAW_MARK in each.name for each in judged) else ''}"
    )


def _finds(count: int) -> str:
    return "finds" if count == 1 else "find"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _head(part: Part) -> str:
    return f"**{part.shown.study.study.title}, scale {part.shown.study.scale}.**"


def _methods(part: Part) -> str:
    """Which methods are better and worse than the baseline, and which comparisons are open."""
    settings = list(dict.fromkeys(each.at for each in part.judged))
    words = {"holds": "better", "fails": "worse"}
    small = part.verdict("too small")
    nowhere = [word for verdict, word in words.items() if not part.verdict(verdict)]
    said = [_head(part)]
    if part.again:
        several = "comparison rests" if part.again == 1 else "comparisons rest"
        said.append(f"{part.again} {several} on trials that are compared above.")
    for verdict, word in words.items():
        if those := part.verdict(verdict):
            count = f"{len(those)} of {len(part.judged)} {'other ' * bool(part.again)}comparisons {_finds(len(those))}"
            said.append(f"{count} a method {word} than {part.baseline}: {decided(those, settings)}.")
    if nowhere:
        others = "No other comparison" if part.again else "No comparison"
        said.append(f"{others} finds a method {' or '.join(nowhere)} than {part.baseline}.")
    if small:
        said.append(
            f"{len(small)} {_finds(len(small))} a difference that is too small to matter: {decided(small, settings)}."
        )
    for verdict in ("open", "preliminary"):
        if those := part.verdict(verdict):
            named_ = together([(each.name, each.at, each.limits) for each in those], settings)
            said.append(f"{len(those)} {_are(len(those))} {verdict}: {named_}.")
    return " ".join(said)


def decided(those: Sequence[Judged], settings: Sequence[str]) -> str:
    """Comparisons with their numbers by setting; of a method with many, the smallest and the largest difference."""
    by_setting, texts = dict[str, list[str]](), list[str]()
    for name in dict.fromkeys(each.name for each in those):
        mine = [each for each in those if each.name == name]
        if len(mine) <= MOST_LISTED:
            for each in mine:
                by_setting.setdefault(_at(each.at), []).append(f"{name} ({each.number})")
            continue
        ends = sorted((each for each in mine if each.finding.spread.low is not None), key=_difference)
        lost = len(mine) - len(ends)
        told = [f"from {ends[0].number},{_at(ends[0].at)}, to {ends[-1].number},{_at(ends[-1].at)}"] if ends else []
        told += [f"by divergence in {lost}"] if lost else []
        texts.append(f"{name} in {len(mine)} of {len(settings)} settings ({'; '.join(told)})")
    return "; ".join([*(f"{_listed(names)}{at}" for at, names in by_setting.items()), *texts])


def _difference(judged: Judged) -> float:
    return judged.finding.spread.mean or 0.0


def together(those: Iterable[tuple[str, str, str]], settings: Sequence[str]) -> str:
    """Names with their settings and a remark; names with the same settings and the same remark stand together."""
    places = dict[tuple[str, str], list[str]]()
    for name, at, remark in those:
        places.setdefault((name, remark), []).append(at)
    names = dict[tuple[str, str], list[str]]()
    for (name, remark), here in places.items():
        where = _listed(map(_at, here)) if len(here) <= MOST_LISTED else f" in {len(here)} of {len(settings)} settings"
        where = f" in all {len(settings)} settings" if len(here) == len(settings) > 2 else where
        names.setdefault((where, remark), []).append(name)
    return "; ".join(
        f"{_listed(several)}{where}{f' ({remark})' if remark else ''}" for (where, remark), several in names.items()
    )


def _listed(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last.strip()}" if first else last


def _at(setting: str) -> str:
    return f" at {setting}" if setting else ""


def _claims(part: Part) -> str:
    """Which claims of a study without methods hold, fail and are open, and where there are few seeds."""
    said = [_head(part)]
    for verdict in DECIDED:
        for each in part.verdict(verdict):
            evidence = "; ".join([each.finding.evidence, *each.finding.remarks])
            said.append(f'The claim "{each.name}" {CLAIM_VERBS[verdict]}{_at(each.at)} ({evidence}).')
    for verdict in ("open", "preliminary"):
        if those := part.verdict(verdict):
            names = "; ".join(f'"{each.name}"{_at(each.at)}' for each in those)
            said.append(f"{len(those)} claim{'s are' if len(those) > 1 else ' is'} {verdict}: {names}.")
    if those := part.verdict("no data"):
        said.append(f"{len(those)} claim{'s have' if len(those) > 1 else ' has'} no data.")
    counts = [
        (_setting(part.shown.study, cell), sum(hash_ in part.shown.trials for hash_ in _hashes(cell)))
        for cell in part.shown.study.cells
    ]
    if few := dict.fromkeys(setting for setting, seeds in counts if 0 < seeds < FEW_SEEDS):
        said.append(f"Fewer than {FEW_SEEDS} seeds are published at {'; at '.join(few)}.")
    return " ".join(said)


def _paper(part: Part) -> str:
    """How far the paper's numbers are from ours, and what they say of the comparisons; empty if there are none."""
    frame = part.shown.beside_the_paper()
    if not len(frame):
        return ""
    points, gains = distances(part.shown, frame)
    head = f"**The paper's numbers of `{part.shown.study.name}`.**"
    said = [f"Of {len(points)} accuracies, {_near(points.difference)} points of the paper's."]
    said += [f"Of {len(gains)} differences to {part.baseline}, {_near(gains)}."] if len(gains) else []
    far = [text for number in points.index if (text := _far(points.loc[number], gains.get(number, 0.0)))]
    said += [f"These are farther away (in brackets the paper's): {'; '.join(far)}."] if far else []
    return " ".join([head, *said, *_paper_verdicts(part)])


def _near(apart: "pd.Series[float]") -> str:
    return _listed(f"{(apart.abs() <= limit).sum()} are within {limit}" for limit in WITHIN)


def _far(row: "pd.Series[Any]", gain: float) -> str:
    """What of a cell is beyond the largest distance, ours and the paper's; empty if nothing is."""
    texts = []
    if abs(row.difference) > WITHIN[-1]:
        texts.append(f"accuracy {row.ours:.2f} [{row.paper:.2f}]")
    if abs(gain) > WITHIN[-1]:
        texts.append(f"difference {row.gain:+z.2f} [{row.paper_gain:+z.2f}]")
    few = [remark for remark in (row.remark or "").split("; ") if remark.endswith(" seeds")]
    return f"{row['cell']}: {', '.join([*texts, *few])}" if texts else ""


def _paper_verdicts(part: Part) -> list[str]:
    """What the paper's own numbers say where all seeds diverged, of the decisions, and of what is open here."""
    if not part.has_methods:
        return []
    settings = list(dict.fromkeys(each.at for each in part.judged))
    known = [(each, each.finding.paper.agree) for each in part.judged if each.finding.paper]
    both = [
        (each.finding.verdict == "holds") == ahead
        for each, ahead in known
        if each.finding.verdict in ("holds", "fails")
    ]
    gains = [(each.name, each.at, "") for each, ahead in known if each.finding.verdict == "open" and ahead]
    lost = [(each.name, each.at, "") for each, _ in known if each.lost and each.finding.spread.n == 0]
    said = [f"The paper has a number where no seed has one here: {together(lost, settings)}."] if lost else []
    said += [f"The paper's own numbers agree with {sum(both)} of {len(both)} decisions."] if both else []
    if gains:
        said.append(
            f"The paper shows a gain over {part.baseline} where our comparison is open: {together(gains, settings)}."
        )
    return said
