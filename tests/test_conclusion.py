"""The conclusion of docs/results.md, held against the rounds of the published trials by SciPy's own paired t test."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import false_discovery_control, ttest_1samp, ttest_rel

import fedbench
from fedbench.analysis.claims import Finding, check_claims, q_text
from fedbench.analysis.statistics.spread import Spread
from fedbench.analysis.statistics.verdicts import Verdict
from fedbench.analysis.trials import stored_trials
from fedbench.metrics.base import MARGIN
from fedbench.specs.expand import Cell, ScaledStudy, expand
from fedbench.specs.names import named
from fedbench.store.store import Store

ROOT = Path(__file__).parent.parent
DIVERGED = "diverged in 3 of 3 seeds"
STATED = re.compile(rf"\(([+-][^()]*(?=, q = )|{DIVERGED})(?:, q = ([^()]*))?\)")
MOST_LISTED = 3  # settings of one method; of more the page has the ends alone


@pytest.fixture(scope="module")
def conclusion() -> Iterator[Any]:
    """The module that writes the conclusion."""
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "docs"))
    yield import_module("conclusion")
    sys.path[:] = before


@dataclass(frozen=True)
class Expected:
    """A comparison as SciPy sees it; words: the numbers that the page must have, empty if it is open.

    p: None where planned trials have not ended, so that nothing is tested.
    """

    title: str
    method: str
    setting: str
    words: str
    p: float | None

    @property
    def sign(self) -> int:
        """1 if the method is better, -1 if it is worse, and 0 if the comparison is open."""
        return 0 if not self.words else 1 if self.words.startswith("+") else -1


def scores(shown: Any, cell: Cell) -> NDArray[np.float64]:
    """The mean accuracy of the last rounds, by seed: nan for a missing trial, infinite for one that diverged."""
    found = []
    for config in cell.trials.values():
        trial = shown.trials.get(config.hash)
        if trial is None or trial.status == "diverged":
            found.append(np.nan if trial is None else -np.inf)
            continue
        rounds = trial.table("rounds")
        found.append(100 * rounds.test_accuracy[-shown.study.score.over(config.rounds) :].mean())
    return np.array(found)


def compared(shown: Any, title: str, cell: Cell, base: Cell) -> Expected:
    """The paired t test of a cell and its baseline; a comparison with only some diverged trials is open."""
    study, mine, other = shown.study, scores(shown, cell), scores(shown, base)
    both = np.isfinite(mine) & np.isfinite(other)
    words, p = "", 1.0
    lost = np.isinf(mine) | np.isinf(other)
    if np.isneginf(mine).all() and both.sum() == 0 and np.isfinite(other).all():
        words, p = DIVERGED, 2 * 0.25 ** len(mine)
    elif both.sum() > 1 and not lost.any():
        test, apart = ttest_rel(mine[both], other[both]), mine[both] - other[both]
        sides = ((-MARGIN, "greater"), (MARGIN, "less"))
        small = max(float(ttest_1samp(apart, bound, alternative=side).pvalue) for bound, side in sides)
        assert small > 0.025, "no difference of the published ones is too small to matter"
        (low, high), p = test.confidence_interval(0.95), min(float(test.pvalue), 2 * small)
        p = float(test.pvalue) if low * high > 0 else p
        mean = np.mean(apart)
        words = f"{mean:+.2f} [{low:+.2f}, {high:+.2f}], {both.sum()} seeds" if low * high > 0 else ""
    ended = all(config.hash in shown.trials for one in (cell, base) for config in one.trials.values())
    setting = [named(a, cell.labels[a]) for a in study.axes if a != "method" and len(study.axes[a]) > 1]
    return Expected(title, str(cell.labels["method"]), ", ".join(setting), words if ended else "", p if ended else None)


@pytest.fixture(scope="module")
def expected(conclusion: Any) -> tuple[list[Expected], list[float]]:
    """All comparisons of all published studies, those of the same trials once; and the p values of the claims."""
    found, seen, claims = list[Expected](), set[tuple[str, ...]](), list[float]()
    for shown in conclusion.published()[0]:
        study = shown.study
        if "method" not in study.study.baseline:
            claims += [f.p for f in check_claims(study, shown.trials) if f.p is not None]
            continue
        assert dict(study.study.baseline) == {"method": "FedAvg"}
        for cell in study.cells:
            (base,) = [one for one in study.cells if one.labels == {**cell.labels, "method": "FedAvg"}]
            mine, other = ([config.hash for config in one.trials.values()] for one in (cell, base))
            known = ~np.isnan(scores(shown, cell)) & ~np.isnan(scores(shown, base))
            if mine != other and known.any() and (*mine, *other) not in seen:
                seen.add((*mine, *other))
                found.append(compared(shown, f"{study.study.title}, scale {study.scale}.", cell, base))
    return found, claims


def check(text: str, expected: list[Expected], claims: list[float]) -> None:
    """Hold the decisions, counts and q values of a conclusion against those that are expected."""
    of_method = Counter((each.title, each.method, each.sign) for each in expected)
    listed = [each for each in expected if each.words and of_method[each.title, each.method, each.sign] <= MOST_LISTED]
    assert Counter(match[1] for match in STATED.finditer(text)) == Counter(each.words for each in listed)
    tested = [each for each in expected if each.p is not None]
    q_values = false_discovery_control([*(each.p for each in tested), *claims])
    q_of = {id(each): q for each, q in zip(tested, q_values, strict=False)}
    for each in expected:
        (study,) = re.findall(rf"\*\*{re.escape(each.title)}\*\*(.*?)(?: - \*\*| \*\*)", text)
        if each in listed:
            number = f"{each.words}, q = {q_text(q_of[id(each)])}"
            assert re.search(rf"{re.escape(each.method)}†? \({re.escape(number)}\)[^;:]* at {each.setting}\b", study)
        here = [other for other in expected if other.title == each.title and not other.words]
        for word, left in (
            ("open", [o for o in here if o.p is not None]),
            ("preliminary", [o for o in here if o.p is None]),
        ):
            assert not left or re.search(rf" {len(left)} (is|are) {word}", study)
    counts = re.search(
        r"(\d+) finds? the method better, (\d+) finds? it worse, 0 find a difference that is too small to matter, "
        r"(\d+) (?:is|are) open, and (\d+) (?:is|are) preliminary",
        text,
    )
    assert counts
    better, worse = (sum(each.sign == sign for each in expected) for sign in (1, -1))
    unfinished = [each.p is None for each in expected if each.sign == 0]
    assert list(map(int, counts.groups())) == [better, worse, unfinished.count(False), unfinished.count(True)]
    assert f"over all {len(tested) + len(claims)} comparisons and claims" in text


def page() -> str:
    """The conclusion as the page has it, in one line."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    head, _, rest = text.partition("<!-- generated: conclusion -->")
    assert head.strip() == "# Results", "the page opens with the conclusion"
    return " ".join(rest.partition("<!-- end of")[0].split())


def test_the_conclusion_has_the_numbers_of_a_paired_t_test_of_the_published_rounds(
    expected: tuple[list[Expected], list[float]],
) -> None:
    text = page()
    check(text, *expected)
    for decision in STATED.finditer(text):
        for match in re.finditer(r"\d+(\.\d+)?", decision[0]):
            start, end = decision.start() + match.start(), decision.start() + match.end()
            with pytest.raises(AssertionError):
                check(f"{text[:start]}{float(match[0]) + 0.01:g}{text[end:]}", *expected)


def test_the_conclusion_has_the_distances_to_the_paper() -> None:
    every = fedbench.load("methods", "paper", ROOT / "published", table="cells")
    cells = every[(every.table == "accuracy") & every.paper_difference.notna()]
    apart, text = cells.paper_difference.abs(), page()
    lost = every[(every.table == "accuracy") & (every.diverged > 0) & (every.n == 0) & every.paper.notna()]
    (said,) = re.findall(r"The paper has a number where no seed has one here: (.*?)\. The", text)
    assert len(lost)
    assert all(re.search(rf"{re.escape(row.method)}†?.* at {row.setting}", said) for row in lost.itertuples())
    assert f"Of {len(cells)} accuracies, {(apart <= 0.5).sum()} are within 0.5 and {(apart <= 1).sum()} are" in text
    base = cells[cells.method == "FedAvg"].set_index("setting").paper
    others = cells[cells.method != "FedAvg"]
    gains = (others.difference - (others.paper - base[others.setting].to_numpy())).abs()
    assert f"Of {len(gains)} differences to FedAvg, {(gains <= 0.5).sum()} are within 0.5 and" in text
    for cell, gain in zip(others.itertuples(), gains, strict=True):
        number = f"{cell.method}, {cell.setting}: accuracy {cell.mean:.2f} [{cell.paper:.2f}]"
        assert (number in text) == (abs(cell.paper_difference) > 1)
        place = rf"{re.escape(f'{cell.method}, {cell.setting}')}: [^;]*difference {cell.difference:+.2f} "
        assert bool(re.search(place.replace("+", r"\+"), text)) == (gain > 1)


@pytest.fixture(scope="module")
def methods() -> ScaledStudy:
    """The study of all methods."""
    return expand("methods", "paper", changes={}, only={}, seeds=None)


def test_one_seed_decides_nothing_and_the_conclusion_says_that_there_is_one(
    conclusion: Any, methods: ScaledStudy
) -> None:
    first = {cell.trials[8].hash for cell in methods.cells}
    stored = stored_trials(methods, Store(ROOT / "published"))
    trials = {hash_: trial for hash_, trial in stored.items() if hash_ in first and trial.status == "done"}
    (part,) = conclusion.parts([conclusion.Shown(methods, trials)])
    assert {each.finding.verdict for each in part.judged} == {"preliminary"}
    assert {each.limits for each in part.judged} == {"1 seed"}
    assert "FedLAW†" in {each.name for each in part.judged}
    assert "FedAvg, bn=proxy" not in {each.name for each in part.judged}, "its trials are those of FedAvg"


def test_the_same_trials_are_compared_once(conclusion: Any, methods: ScaledStudy) -> None:
    shown = conclusion.Shown(methods, stored_trials(methods, Store(ROOT / "published")))
    once, again = conclusion.parts([shown, shown])
    assert once.judged
    (alone,) = conclusion.parts([shown])
    assert [(each.name, each.finding.verdict, each.finding.q) for each in once.judged] == [
        (each.name, each.finding.verdict, each.finding.q) for each in alone.judged
    ]
    assert (again.judged, again.again) == ([], len(once.judged))


def test_a_method_with_many_settings_is_summed_up(conclusion: Any) -> None:
    def judged(number: int, verdict: Verdict) -> Any:
        spread = Spread(-number, None, 3, -number - 0.5, -number + 0.5)
        return conclusion.Judged("FedDF†", f"setting {number}", Finding("", "", "", spread, verdict, q=0.01 * number))

    settings = [f"setting {number}" for number in range(1, 6)]
    four = [judged(number, "fails") for number in (1, 4, 2, 3)]
    assert conclusion.decided(four, settings) == (
        "FedDF† in 4 of 5 settings (from -4.00 [-4.50, -3.50], 3 seeds, q = 0.04, at setting 4, "
        "to -1.00 [-1.50, -0.50], 3 seeds, q = 0.01, at setting 1)"
    )
    places = [(each.name, each.at, each.limits) for each in four]
    assert conclusion.together(places, settings) == "FedDF† in 4 of 5 settings"
    assert conclusion.together(places[:2], settings) == "FedDF† at setting 1 and at setting 4"
