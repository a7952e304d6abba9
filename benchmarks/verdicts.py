"""How often verdicts are wrong, and how often they find what is there: python benchmarks/verdicts.py --out rates.csv.

Every check of a claim and every rank is given simulated scores, by the functions that reports use. An entry is one
decision in one situation: its rate, and what is promised of it if the decision is false there. A verdict "holds" or
"fails" is promised to be false in at most 2.5 % of all cases, whichever of the two it is; and so is "too small to
matter". Entries with several looks judge the same samples at every look of a plan, as `study --decide` does; `used` is
the mean number of seeds at which they stop.

An entry exceeds its promise if its rate lies more than two standard errors above it. Of many entries that keep their
promise exactly, one in 44 would do so by chance; so what exceeds it is simulated again, from other random numbers and
with ten times as many simulations, and this second rate counts: one in 1900 exceeds it twice by chance.
"""

import argparse
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbench.analysis.checks.base import Cells, Group, difference
from fedbench.analysis.looks import judged_at
from fedbench.analysis.ranks import Scores, rank
from fedbench.analysis.statistics.ranking import practically
from fedbench.analysis.statistics.verdicts import DECIDED, LEVEL, Judgement, judge, over_looks, q_values
from fedbench.specs.expand import Cell
from fedbench.specs.parts import CHECKS
from fedbench.specs.plan import Look, deciding_plan

Array = NDArray[np.float64]
Column = tuple[tuple[Any, ...], str]  # a cell by its labels, and a metric
PROMISE, RANKS_PROMISE = 0.025, 0.05
SEEDS = (3, 5, 10, 20)
EFFECTS = (0.5, 1.0, 2.0, 3.0)
NOISES = ("normal", "unequal", "heavy", "missing", "fewer seeds", "diverged", "half diverged")
MISSING = 0.2  # the share of trials
DIVERGED = {"diverged": 0.2, "half diverged": 0.5}  # half: divergence in all seeds of one point only is most frequent
PLANS = {most: tuple(deciding_plan([8], most, {}).looks) for most in (12, 20)}  # looks of --decide, by the most seeds
MARGIN_EFFECTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
Q_NOISES = ("normal", "half diverged")
SCORE, OTHER = "test_accuracy", "test_loss"
FAR = 10.0
AGAIN = 10  # times as many simulations for what exceeds its promise
SD = 0.5**0.5  # of a score, so that the difference of two has a standard deviation of one


@dataclass(frozen=True)
class Situation:
    """A claim, the true means behind it, and which decisions are false there.

    columns: what the check reads; means: of every column, for an effect (in standard deviations of a difference);
    false: the decisions that are wrong, with the rate that is promised; paired: whether seeds have something in common;
    margin: within which a difference is too small to matter; powers: whether it is about true decisions alone.
    """

    name: str
    check: str
    claim: Mapping[str, Any]
    axes: Sequence[str]
    columns: Sequence[Column]
    means: Callable[[float], Sequence[float] | Array]
    false: Mapping[str, float]
    effects: Sequence[float] = (0.0,)
    baseline: Mapping[str, Any] | None = None
    paired: bool = True
    unrelated: bool = False
    margin: float | None = None
    powers: bool = False


def _line(labels: Sequence[Any], metric: str = SCORE) -> list[Column]:
    return [((label,), metric) for label in labels]


BOTH = {"holds": PROMISE, "fails": PROMISE}
TWO_SIDED = {"holds": PROMISE, "fails": 2 * PROMISE}
NO_FAILS = {"fails": PROMISE}
NO_HOLDS = {"holds": PROMISE}
ABOVE = {"fails": PROMISE, "too small": PROMISE}
BELOW = {"holds": PROMISE, "too small": PROMISE}
PAIR = _line(["a", "b"])
TWO_LINES: list[Column] = [((name, step), SCORE) for name in "ab" for step in range(5)]
SIX = [((cell,), metric) for metric in (SCORE, OTHER) for cell in range(6)]
STEPS = np.arange(5.0)
STEP = 1 / 10**0.5  # the standard deviation of a slope over five steps, for scores with one of one


def _one(effect: float, at: int, count: int, low: float = 0.0) -> Array:
    """Means of so many points, one of which is better by the effect; low: the others."""
    means = np.full(count, low)
    means[at] = effect
    return means


def _constant(means: Array) -> Callable[[float], Array]:
    """The same means for every effect."""
    return lambda _: means


def situations() -> Iterator[Situation]:
    """All situations: those at the edge of what a claim says, where errors are most frequent, and some beyond it."""
    beats = {"point": {"x": "a"}, "against": {"x": "b"}}
    yield Situation("equal", "beats", beats, "x", PAIR, lambda _: [0, 0], BOTH)
    yield Situation("better", "beats", beats, "x", PAIR, lambda e: [e, 0], NO_FAILS, EFFECTS)
    near = {**beats, "margin": 1.0}
    yield Situation("at the margin", "comparable", near, "x", PAIR, lambda _: [1, 0], TWO_SIDED)
    for effect in EFFECTS:
        wide = {**beats, "margin": effect}
        yield Situation(
            "equal, margin", "comparable", wide, "x", PAIR, lambda _: [0, 0], {"fails": 2 * PROMISE}, [effect]
        )
    alone: list[Column] = [((), SCORE)]
    yield Situation("at the bound", "within", {"low": 0.0}, "", alone, lambda _: [0], BOTH, paired=False)
    yield Situation("inside", "within", {"low": 0.0}, "", alone, lambda e: [e * SD], NO_FAILS, EFFECTS, paired=False)
    metrics: list[Column] = [((), SCORE), ((), OTHER)]
    yield Situation("equal", "higher_than", {"than": OTHER}, "", metrics, lambda _: [0, 0], BOTH)
    yield Situation("higher", "higher_than", {"than": OTHER}, "", metrics, lambda e: [e, 0], NO_FAILS, EFFECTS)
    rises = {"axis": "x", "direction": "rises"}
    yield Situation("flat", "trend", rises, "x", _line(range(5)), lambda _: 0 * STEPS, BOTH)
    yield Situation("rising", "trend", rises, "x", _line(range(5)), lambda e: e * SD * STEP * STEPS, NO_FAILS, EFFECTS)
    grows = {"axis": "x", "direction": "rises", "point": {"m": "a"}, "against": {"m": "b"}}
    two = ["m", "x"]
    yield Situation("parallel", "trend_of_difference", grows, two, TWO_LINES, lambda _: np.zeros(10), BOTH)
    yield Situation(
        "growing",
        "trend_of_difference",
        grows,
        two,
        TWO_LINES,
        lambda e: [*(e * STEP * STEPS), *0 * STEPS],
        NO_FAILS,
        EFFECTS,
    )
    calm = {"axis": "x", "point": {"m": "a"}, "against": {"m": "b"}}
    yield Situation("as steady", "steadier", calm, two, TWO_LINES, lambda _: np.zeros(10), BOTH)
    yield Situation(
        "steadier", "steadier", calm, two, TWO_LINES, lambda e: [*0 * STEPS, *e * STEPS / 2], NO_FAILS, EFFECTS
    )
    goes = {"other": OTHER, "axes": ["x"], "direction": "rises"}
    yield Situation("only noise", "goes_with", goes, "x", SIX, lambda _: np.zeros(12), BOTH)
    yield Situation("unrelated cells", "goes_with", goes, "x", SIX, lambda _: np.zeros(12), BOTH, unrelated=True)
    few = [column for column in SIX if column[0][0] < 4]
    yield Situation("only noise, 4 cells", "goes_with", goes, "x", few, lambda _: np.zeros(8), BOTH)
    both = np.tile(np.arange(6.0), 2)
    yield Situation("related", "goes_with", goes, "x", SIX, lambda e: e * SD * both, NO_FAILS, EFFECTS)
    same, seven = {"axis": "x", "point": {"m": "a"}, "against": {"m": "b"}}, np.tile(np.arange(7.0), 2)
    orders: list[Column] = [((name, label), SCORE) for name in "ab" for label in range(7)]
    yield Situation("only noise", "same_order", same, two, orders, lambda _: 0 * seven, BOTH)
    yield Situation("unrelated orders", "same_order", same, two, orders, lambda _: 0 * seven, BOTH, unrelated=True)
    yield Situation("same order", "same_order", same, two, orders, lambda e: e * SD * seven, NO_FAILS, EFFECTS)
    top = {"axis": "x", "at": "a", "which": "largest"}
    five = _line("abcde")
    yield Situation("all equal", "extreme", top, "x", five, lambda _: np.zeros(5), BOTH)
    yield Situation("one equal", "extreme", top, "x", five, lambda _: [0, 0, -FAR, -FAR, -FAR], BOTH)
    yield Situation("best", "extreme", top, "x", five, lambda e: _one(e, 0, 5), NO_FAILS, EFFECTS)
    yield Situation("another is best", "extreme", top, "x", five, lambda e: _one(e, 1, 5), NO_HOLDS, EFFECTS)
    inner = {"axis": "x"}
    for count in (5, 6):
        line = _line(range(count))
        zeros = np.zeros(count)
        yield Situation(f"all {count} equal", "inner_optimum", inner, "x", line, _constant(zeros), BOTH)
        low = np.array([-FAR, *zeros[1:]])
        yield Situation(f"{count - 1} equal, one end low", "inner_optimum", inner, "x", line, _constant(low), BOTH)
    line = _line(range(5))
    yield Situation("end and neighbour equal", "inner_optimum", inner, "x", line, lambda _: [-FAR] * 3 + [0, 0], BOTH)
    yield Situation("best inside", "inner_optimum", inner, "x", line, lambda e: _one(e, 2, 5), NO_FAILS, EFFECTS)
    yield Situation("best at an end", "inner_optimum", inner, "x", line, lambda e: _one(e, 4, 5), NO_HOLDS, EFFECTS)
    some, start = {"axis": "x"}, {"x": "a"}
    check = "some_point_beats_baseline"
    yield Situation("all equal", check, some, "x", five, lambda _: np.zeros(5), BOTH, baseline=start)
    yield Situation("one equal", check, some, "x", five, lambda _: [0, 0, -FAR, -FAR, -FAR], BOTH, baseline=start)
    yield Situation("one better", check, some, "x", five, lambda e: _one(e, 1, 5), NO_FAILS, EFFECTS, baseline=start)
    yield Situation("all worse", check, some, "x", five, lambda e: _one(e, 0, 5), NO_HOLDS, EFFECTS, baseline=start)
    yield from margin_situations()


def margin_situations() -> Iterator[Situation]:
    """Situations with a margin of one standard deviation: at zero, and where what counts is at the margin."""
    pair = {"point": {"x": "a"}, "against": {"x": "b"}}
    at: list[tuple[str, str, Mapping[str, Any], Any, list[Column], Any, Mapping[str, float]]] = [
        ("equal", "beats", pair, "x", PAIR, [0, 0], BOTH),
        ("above by", "beats", pair, "x", PAIR, [1, 0], ABOVE),
        ("below by", "beats", pair, "x", PAIR, [0, 1], BELOW),
    ]
    metrics: list[Column] = [((), SCORE), ((), OTHER)]
    at.append(("above by", "higher_than", {"than": OTHER}, "", metrics, [1, 0], ABOVE))
    rises = {"axis": "x", "direction": "rises"}
    at.append(("rises by", "trend", rises, "x", _line(range(5)), STEPS / 4, ABOVE))
    two, lines = ["m", "x"], {"axis": "x", "point": {"m": "a"}, "against": {"m": "b"}}
    grows = {**lines, "direction": "rises"}
    at.append(("grows by", "trend_of_difference", grows, two, TWO_LINES, [*STEPS / 4, *0 * STEPS], ABOVE))
    steep = 20 * FAR * STEPS  # so that noise does not change which step is the highest
    at.append(("steadier by", "steadier", lines, two, TWO_LINES, [*steep, *steep + STEPS / 4], ABOVE))
    five, far = _line("abcde"), [-FAR] * 3
    top = {"axis": "x", "at": "a", "which": "largest"}
    at.append(("all equal", "extreme", top, "x", five, [0] * 5, BOTH))
    at.append(("ahead of all by", "extreme", top, "x", five, [1, 0, 0, 0, 0], ABOVE))
    at.append(("ahead of one by", "extreme", top, "x", five, [1, 0, *far], ABOVE))
    at.append(("behind all by", "extreme", top, "x", five, [0, 1, 1, 1, 1], BELOW))
    at.append(("behind one by", "extreme", top, "x", five, [0, 1, *far], BELOW))
    inner, line = {"axis": "x"}, _line(range(5))
    at.append(("all equal", "inner_optimum", inner, "x", line, [0] * 5, BOTH))
    at.append(("one inside above by", "inner_optimum", inner, "x", line, [0, 0, 1, 0, 0], ABOVE))
    at.append(("all inside above by", "inner_optimum", inner, "x", line, [0, 1, 1, 1, 0], ABOVE))
    at.append(("both ends above by", "inner_optimum", inner, "x", line, [1, 0, 0, 0, 1], BELOW))
    at.append(("one end above by", "inner_optimum", inner, "x", line, [1, 0, 0, 0, -FAR], BELOW))
    some = "some_point_beats_baseline"
    at.append(("all equal", some, inner, "x", five, [0] * 5, BOTH))
    at.append(("one above by", some, inner, "x", five, [0, 1, 0, 0, 0], ABOVE))
    at.append(("all above by", some, inner, "x", five, [0, 1, 1, 1, 1], ABOVE))
    at.append(("all below by", some, inner, "x", five, [1, 0, 0, 0, 0], BELOW))
    for name, check, claim, axes, columns, means, false in at:
        baseline = {"x": "a"} if check == some else None
        words = f"{name} the margin" if name.endswith(" by") else f"{name}, margin 1"
        yield Situation(
            *(words, check, claim, axes, columns, _constant(np.asarray(means, float)), false),
            baseline=baseline,
            margin=1.0,
        )
    yield Situation(
        *("comparison", "beats", pair, "x", PAIR, lambda e: [e, 0], {}, MARGIN_EFFECTS), margin=1.0, powers=True
    )


def scores(situation: Situation, effect: float, seeds: int, noise: str, count: int, rng: np.random.Generator) -> Array:
    """Simulated scores [seeds, columns, simulations]: nan where a trial is missing, minus infinity where it diverged.

    unequal: standard deviations from 1 to 10 times as large; heavy: Student's t with three degrees of freedom.
    """
    columns = len(situation.columns)
    shape = (seeds, columns, count)
    drawn = rng.standard_t(3, shape) / 3**0.5 if noise == "heavy" else rng.standard_normal(shape)
    if noise == "unequal":
        lines = max(1, len(situation.axes))  # two lines have the same spreads
        spreads = np.tile(np.geomspace(1, 10, columns // lines), lines)
        drawn *= spreads[:, None]
    drawn = SD * np.asarray(drawn) + np.asarray(situation.means(effect), float)[:, None]
    if situation.unrelated:
        drawn += 3 * rng.standard_normal((columns, count))
    if situation.paired:
        drawn += 2 * rng.standard_normal((seeds, 1, count))
    gone = rng.random(shape)
    if noise == "missing":
        drawn[gone < MISSING] = np.nan
    if noise == "fewer seeds":  # every other column ends early
        drawn[seeds - seeds // 3 :, ::2] = np.nan
    drawn[gone < DIVERGED.get(noise, 0.0)] = -np.inf
    return np.asarray(drawn)


def judgements(situation: Situation, drawn: Array, looks: Sequence[Look]) -> list[Judgement]:
    """What every look says of every simulation."""
    return [look_at(situation, drawn[: look.seeds], look.level) for look in looks]


def look_at(situation: Situation, drawn: Array, level: float) -> Judgement:
    """What one look says of every simulation."""
    claim = CHECKS.get(situation.check).model_validate(
        {"says": "It is so", "check": situation.check, **situation.claim}
    )
    labels = dict.fromkeys(labels for labels, _ in situation.columns)
    cells = {key: (Cell(dict(zip(situation.axes, key, strict=True)), {}),) for key in labels}
    places = {column: place for place, column in enumerate(situation.columns)}

    def read(chosen: Cells, metric: str) -> Array:
        return drawn[:, places[tuple(chosen[0].labels.values()), metric]]

    group = Group(claim, cells, list(situation.axes), read, situation.baseline or {}, drawn.shape[0])
    return judged_at(claim.evidence(group), situation.margin, level)


@dataclass(frozen=True)
class Entry:
    """One decision in one situation; promise: its largest rate where it is false, None where it is right."""

    about: str
    situation: str
    noise: str
    seeds: int
    cells: int
    effect: float
    decision: str
    promise: float | None
    rate: float
    simulations: int
    looks: int = 1
    used: float = 0.0

    @property
    def exceeds(self) -> bool:
        """Whether the rate is more than two standard errors above the promise."""
        if self.promise is None:
            return False
        return bool(self.rate > self.promise + 2 * (self.promise * (1 - self.promise) / self.simulations) ** 0.5)


def _generator(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def claim_entries(situation: Situation, effect: float, looks: Sequence[Look], noise: str, count: int) -> list[Entry]:
    """All decisions in one situation, after the looks of a plan."""
    seeds = looks[-1].seeds
    key = (situation.check, situation.name, effect, seeds, noise, count, *([len(looks)] if len(looks) > 1 else []))
    steps = judgements(situation, scores(situation, effect, seeds, noise, count, _generator(*key)), looks)
    found = over_looks(steps).verdicts
    stopped = [np.isin(over_looks(steps[: number + 1]).verdicts, DECIDED) for number in range(len(looks) - 1)]
    used = looks[0].seeds + sum(
        (~over).mean() * (after.seeds - before.seeds)
        for over, before, after in zip(stopped, looks[:-1], looks[1:], strict=True)
    )
    return [
        Entry(
            *(situation.check, situation.name, noise, seeds, 1, effect, decision),
            *(situation.false.get(decision), float((found == decision).mean()), count, len(looks), float(used)),
        )
        for decision in (DECIDED if situation.margin else DECIDED[:2])
    ]


def one_look(seeds: int) -> tuple[Look, ...]:
    """The looks of a plan with so many fixed seeds."""
    return (Look(seeds, LEVEL),)


RANKED = [(k, cells) for k in (2, 5) for cells in (2, 3, 4, 5, 6, 10, 20)]
TOLD_APART, FRIEDMAN = "told apart", "Friedman's p below 0.05"


def rank_entries(k: int, cells: int, noise: str, effect: float, count: int) -> list[Entry]:
    """How often any two of k competitors are told apart over some cells with three seeds each.

    They are alike, but for the first, which is better by the effect. unequal: cells whose standard deviations differ;
    by cell: everybody is better in some cells and worse in others, by chance.
    """
    rng, seeds = _generator("ranks", k, cells, noise, effect, count), 3
    apart = {TOLD_APART: 0, FRIEDMAN: 0}
    for _ in range(count):
        shape = (cells, seeds, k)
        drawn = rng.standard_t(3, shape) / 3**0.5 if noise == "heavy" else rng.standard_normal(shape)
        drawn *= SD * (np.geomspace(1, 10, cells)[:, None, None] if noise == "unequal" else 1)
        drawn += 2 * rng.standard_normal((cells, seeds, 1)) + effect * (np.arange(k) == 0)
        if noise == "by cell":
            drawn += 3 * rng.standard_normal((cells, 1, k))
        gone = rng.random(shape)
        if noise == "missing":
            drawn[gone < MISSING] = np.nan
        drawn[gone < DIVERGED.get(noise, 0.0)] = -np.inf
        found = rank(Scores("method", [str(i) for i in range(k)], drawn, [0] * k, 0.0))
        if found is not None:
            apart[TOLD_APART] += any(pair.sure for row in found.ahead for pair in row)
            apart[FRIEDMAN] += bool(found.mean.p < 0.05)
    promise = RANKS_PROMISE if effect == 0 else None
    return [
        Entry("ranks", f"{k} competitors", noise, seeds, cells, effect, decision, promise, number / count, count)
        for decision, number in apart.items()
    ]


IN_PRACTICE = "decided in practice"


def practice_entries(k: int, cells: int, noise: str, count: int) -> list[Entry]:
    """How often any of k competitors is wrongly said to be ahead of its neighbour by more than the margin, or equal.

    Each is better than the next one by exactly the margin of one standard deviation, so that neither is true.
    """
    rng, seeds, wrong = _generator("practice", k, cells, noise, count), 3, 0
    for _ in range(count):
        shape = (cells, seeds, k)
        drawn = rng.standard_t(3, shape) / 3**0.5 if noise == "heavy" else rng.standard_normal(shape)
        drawn *= SD * (np.geomspace(1, 10, cells)[:, None, None] if noise == "unequal" else 1)
        drawn += 2 * rng.standard_normal((cells, seeds, 1)) + np.arange(k, 0, -1.0)
        gone = rng.random(shape)
        if noise == "missing":
            drawn[gone < MISSING] = np.nan
        drawn[gone < DIVERGED.get(noise, 0.0)] = -np.inf
        found = practically(drawn, 1.0)
        wrong += any(found[i][i + 1].decision != "open" for i in range(k - 1))
    name = f"{k} competitors, at the margin"
    return [Entry("ranks", name, noise, seeds, cells, 0.0, IN_PRACTICE, RANKS_PROMISE, wrong / count, count)]


def q_entries(looks: Sequence[Look], noise: str, count: int) -> list[Entry]:
    """The share of false decisions among those with a q value of at most 5 %, of 20 claims about differences of two.

    With one look, half of the claims are at their edge, and the others true by two standard deviations. With several,
    there is a margin of one standard deviation, and a third of the differences is zero, a third at the margin. half
    diverged: so do half of the trials behind the claims whose difference is zero.
    """
    seeds, claims, several = looks[-1].seeds, 20, len(looks) > 1
    rng = _generator("q", seeds, *([] if noise == "normal" else [noise]), count, *([len(looks)] if several else []))
    effects = np.repeat([0.0, 1.0, 2.0], [7, 7, 6]) if several else np.repeat([0.0, 2.0], 10)
    sample = rng.standard_normal((seeds, claims, count)) + effects[:, None]
    lost = rng.random((2, *sample.shape)) < DIVERGED.get(noise, 0.0) * (effects == 0)[:, None]
    sample += np.where(lost[0], -np.inf, 0.0)
    sample = difference(sample, np.where(lost[1], -np.inf, 0.0))
    margin = 1.0 if several else None
    found = over_looks([judge(sample[: look.seeds], margin=margin, level=look.level) for look in looks])
    verdicts, p = found.verdicts, found.p
    wrong = np.where((effects == 0)[:, None], verdicts != "too small", verdicts != "holds")
    shares = []
    for number in range(count):
        known = np.flatnonzero(found.known[:, number])  # where both always diverged, there is no claim to be counted
        q = np.ones(claims)
        q[known] = q_values(list(p[known, number]))
        sure = (q <= RANKS_PROMISE) & np.isin(verdicts[:, number], DECIDED)
        shares.append((sure & wrong[:, number]).sum() / max(1, sure.sum()))
    rate = float(np.mean(shares))
    entry = Entry("q values", "20 claims", noise, seeds, 1, 2.0, "false share", RANKS_PROMISE, rate, count, len(looks))
    return [entry]


Run = Callable[[int], list[Entry]]  # from a number of simulations to entries


def confirmed(run: Run, count: int) -> list[Entry]:
    """Entries; where one exceeds its promise, those of other random numbers and ten times as many simulations."""
    found = run(count)
    return run(AGAIN * count) if any(entry.exceeds for entry in found) else found


def claim_runs(
    plans: Sequence[Sequence[Look]], noises: Sequence[str], *, effects: bool = True
) -> Iterator[tuple[str, Run]]:
    """What is to be simulated of claims, with the name of the check; effects: also where a decision would be right."""
    for situation in situations():
        edge = 0.0 in situation.effects and not situation.powers
        if edge or effects:
            for effect, looks, noise in product(situation.effects, plans, noises if edge else ["normal"]):
                yield situation.check, partial(claim_entries, situation, effect, looks, noise)


def rank_runs(ranked: Sequence[tuple[int, int]], noises: Sequence[str], *, effects: bool = True) -> Iterator[Run]:
    """What is to be simulated of ranks."""
    for k, cells in ranked:
        for noise in (*noises, "by cell"):
            yield partial(rank_entries, k, cells, noise, 0.0)
        for noise in noises:
            yield partial(practice_entries, k, cells, noise)
        for effect in EFFECTS if effects else ():
            yield partial(rank_entries, k, cells, "normal", effect)


def main() -> int:
    """Simulate, write the entries, and say which exceed their promise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--simulations", type=int, default=4000, help="of every entry (4000)")
    parser.add_argument("--rank-simulations", type=int, default=400, help="of every entry of ranks (400)")
    parser.add_argument("--looks", action="store_true", help="only what the looks of --decide find, with a margin")
    parser.add_argument("--out", type=Path, help="a CSV file for the entries")
    options = parser.parse_args()
    plans = [*map(one_look, SEEDS), *PLANS.values()]
    if options.looks:
        (comparison,) = (situation for situation in situations() if situation.powers)
        asked = product(comparison.effects, plans)
        runs = [partial(claim_entries, comparison, effect, looks, "normal") for effect, looks in asked]
        entries = [entry for run in runs for entry in run(options.simulations)]
    else:
        entries = [entry for _, run in claim_runs(plans, NOISES) for entry in confirmed(run, options.simulations)]
        for looks, noise in product(plans, Q_NOISES):
            entries += confirmed(partial(q_entries, looks, noise), options.rank_simulations)
        entries += [entry for run in rank_runs(RANKED, NOISES) for entry in confirmed(run, options.rank_simulations)]
    if options.out:
        pd.DataFrame(entries).to_csv(options.out, index=False, float_format="%.4f")
    beyond = [entry for entry in entries if entry.exceeds]
    for entry in beyond:
        print(entry)
    promised = sum(entry.promise is not None for entry in entries)
    print(f"{len(beyond)} of {promised} entries with a promise exceed it by more than two standard errors")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
