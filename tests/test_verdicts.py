"""The promise of verdicts, by simulation of what reports call: benchmarks/verdicts.py in a short form.

Every number is drawn from a fixed seed, so that the tests end alike every time.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fedbench.analysis.statistics.verdicts import SOME, judge
from fedbench.specs.parts import CHECKS

FOLDER = Path(__file__).parent.parent / "benchmarks"
CHECKED = (
    *("beats", "comparable", "extreme", "goes_with", "higher_than", "inner_optimum", "some_point_beats_baseline"),
    *("same_order", "steadier", "trend", "trend_of_difference", "within"),
)
FEW = [(2, 2), (2, 5), (2, 6), (5, 2), (5, 9), (5, 10)]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import verdicts

    yield verdicts
    sys.modules.pop("verdicts")


def test_every_check_is_simulated(simulated: ModuleType) -> None:
    assert {situation.check for situation in simulated.situations()} == set(CHECKED)
    assert set(CHECKED) == {name for name, check in CHECKS.items() if check.__module__.startswith("fedbench.")}


@pytest.mark.parametrize("check", CHECKED)
def test_no_verdict_is_wrong_more_often_than_it_promises(simulated: ModuleType, check: str) -> None:
    """Cell by cell: every situation at the edge of a claim or a margin; every noise; few seeds, many, and looks."""
    plans = [simulated.one_look(3), simulated.one_look(10), simulated.PLANS[12]]
    runs = [run for name, run in simulated.claim_runs(plans, simulated.NOISES, effects=False) if name == check]
    entries = [entry for run in runs for entry in simulated.confirmed(run, 1000)]
    assert len(entries) >= 3 * 2 * len(simulated.NOISES)
    assert {entry.looks for entry in entries} == {1, 4}
    assert [entry for entry in entries if entry.exceeds] == []


@pytest.mark.parametrize("check", CHECKED)
def test_what_is_there_is_found(simulated: ModuleType, check: str) -> None:
    """No promise is kept by never deciding: three standard deviations are seen with ten seeds."""
    runs = [run for name, run in simulated.claim_runs([simulated.one_look(10)], ["normal"]) if name == check]
    found = [entry for run in runs for entry in run(200) if entry.situation != "comparison"]
    entries = [entry for entry in found if entry.effect == 3.0 and entry.promise is None]
    assert entries and min(entry.rate for entry in entries) > 0.8


def test_no_ranks_tell_apart_what_is_alike_more_often_than_they_promise(simulated: ModuleType) -> None:
    runs = simulated.rank_runs(FEW, simulated.NOISES, effects=False)
    entries = [entry for run in runs for entry in simulated.confirmed(run, 50)]
    assert [entry for entry in entries if entry.exceeds] == []
    assert {entry.decision for entry in entries} >= {simulated.TOLD_APART, simulated.IN_PRACTICE}
    assert simulated.rank_entries(2, 10, "normal", 3.0, 50)[0].rate > 0.9


@pytest.mark.parametrize("noise", ["normal", "half diverged"])
@pytest.mark.parametrize("seeds", [3, 10, 12])
def test_of_claims_with_small_q_values_few_are_false(simulated: ModuleType, seeds: int, noise: str) -> None:
    looks = simulated.PLANS.get(seeds, simulated.one_look(seeds))
    entries = simulated.confirmed(partial(simulated.q_entries, looks, noise), 100)
    assert [entry for entry in entries if entry.exceeds] == []


def test_looks_find_more_differences_with_fewer_seeds_than_a_fixed_number(simulated: ModuleType) -> None:
    """A margin of one standard deviation: of differences of two, three seeds find half; looks find all, with six."""
    (comparison,) = (s for s in simulated.situations() if s.powers)
    (fixed, *_), (looks, *_) = (
        simulated.claim_entries(comparison, 2.0, plan, "normal", 1000)
        for plan in (simulated.one_look(3), simulated.PLANS[12])
    )
    assert (fixed.decision, looks.decision) == ("holds", "holds")
    assert fixed.rate < 0.55 and looks.rate > 0.95 and looks.used < 7
    equal = {e.decision: e.rate for e in simulated.claim_entries(comparison, 0.0, simulated.PLANS[12], "normal", 1000)}
    assert equal["too small"] > 0.4 and equal["holds"] + equal["fails"] < 0.05


def test_looking_again_and_again_at_the_full_level_is_found_out(simulated: ModuleType) -> None:
    (equal,) = (s for s in simulated.situations() if (s.check, s.name) == ("beats", "equal"))
    full = [simulated.Look(look.seeds, simulated.LEVEL) for look in simulated.PLANS[12]]
    assert any(entry.exceeds for entry in simulated.claim_entries(equal, 0.0, full, "normal", 4000))


def test_a_rule_that_does_not_correct_for_its_choice_is_found_out(simulated: ModuleType) -> None:
    """The best of five points that are all alike, once judged as if it had been named before, and once by the rule."""
    noise = np.random.default_rng(1).standard_normal((5, 5, 1000))
    best = np.take_along_axis(noise, noise.mean(axis=0).argmax(axis=0)[None, None], axis=1)[:, 0]
    for sample, keeps in ((judge(best), False), (judge(noise, rule=SOME), True)):
        rate = float((sample.verdicts == "holds").mean())
        entry = simulated.Entry("mine", "all equal", "normal", 5, 1, 0.0, "holds", simulated.PROMISE, rate, 1000)
        assert entry.exceeds != keeps
