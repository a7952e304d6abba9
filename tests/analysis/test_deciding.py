"""Which cells get more seeds, when a question stops, what is expected of further seeds, and comparisons by looks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedbench.analysis.comparisons import comparisons, comparisons_frame
from fedbench.analysis.deciding import Standing, with_more
from fedbench.analysis.trials import stored_trials
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.specs.plan import deciding_plan
from fedbench.store.store import Store
from tests.analysis.helpers import MINE, fill

TABLES = """seeds: [1, 2, 3]
tables: {accuracy: {rows: [data.alpha], columns: [method.gamma]}}
scales: {quick: {}}
"""
CLAIM = "claims: [{says: It is so, check: beats, point: {method.gamma: 0.9}, where: {data.alpha: [1]}}]\n"


def decided(folder: Path, outcome: Callable[[Any, int], Any], more: str = "") -> tuple[ScaledStudy, Standing]:
    """Run looks until nothing asks for more; the study with the seeds that were needed."""
    path, store = folder / "mine.yaml", Store(folder / "out")
    path.write_text(MINE + TABLES + more)
    study = expand(str(path), "quick", changes={}, only={}, seeds=None)
    study = replace(study, plan=deciding_plan(study.plan.seeds, 12, study.plan.margins))
    for _ in study.plan.looks:
        fill(store, study, lambda labels, seed: outcome(labels, seed))
        standing = Standing.of(study, stored_trials(study, store))
        study = with_more(study, standing.next_seeds(study.plan))
    return study, Standing.of(study, stored_trials(study, store))


def noisy(labels: Any, seed: int) -> float:
    """Gamma 0.9 is sure to be better, 0.8 is sure to be much the same at alpha 1, and open at alpha 100."""
    gamma, alpha = labels["method.gamma"], labels["data.alpha"]
    noise = float(np.random.default_rng([seed, int(100 * gamma), alpha]).standard_normal())
    gain = {1.0: 0.0, 0.9: 0.1, 0.8: 0.0}[gamma]
    spread = 0.02 if (gamma, alpha) == (0.8, 100) else 0.0002
    return 0.5 + 0.01 * seed % 0.05 + gain + spread * noise


def test_only_cells_behind_an_open_question_get_more_seeds(tmp_path: Path) -> None:
    study, standing = decided(tmp_path, noisy)
    seeds = {tuple(cell.labels.values()): len(cell.trials) for cell in study.cells}
    assert seeds == {(100, 1.0): 12, (100, 0.8): 12, (100, 0.9): 3, (1, 1.0): 3, (1, 0.9): 3, (1, 0.8): 3}
    assert all(list(cell.trials) == study.plan.seeds[: len(cell.trials)] for cell in study.cells), "in a fixed order"
    found = {(one.says, one.at): one for one in standing.comparisons}
    verdicts = {key: (one.verdict, len(one.looks)) for key, one in found.items()}
    assert verdicts == {
        ("gamma 0.9 against gamma 1", "alpha 100"): ("holds", 1),
        ("gamma 0.9 against gamma 1", "alpha 1"): ("holds", 1),
        ("gamma 0.8 against gamma 1", "alpha 100"): ("open", 4),
        ("gamma 0.8 against gamma 1", "alpha 1"): ("too small", 1),
    }
    assert standing.open == [] and standing.text == "0 of 4 comparisons open"


def test_a_comparison_says_better_or_worse_whichever_side_is_better(tmp_path: Path) -> None:
    study, standing = decided(tmp_path, noisy)
    frame = comparisons_frame(list(standing.comparisons))
    assert sorted(frame["verdict"]) == ["better", "better", "open", "too small to matter"]
    assert (frame["looks"] == [len(one.looks) for one in standing.comparisons]).all()
    assert comparisons(replace(study, study=study.study.model_copy(update={"baseline": {}})), {}) == []


def test_the_p_value_is_the_smallest_of_all_looks_each_at_its_part_of_the_level(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> float:
        noise = np.random.default_rng([seed, int(100 * labels["method.gamma"])]).standard_normal()
        return 0.5 + 0.01 * float(noise) + (0.012 if labels["method.gamma"] == 0.9 else 0.0)

    study, standing = decided(tmp_path, outcome, CLAIM + "margins: {test_accuracy: null}\n")
    (claim,) = standing.claims
    assert len(claim.looks) > 1, "one look is no test of this"
    apart = [
        100 * (outcome({"method.gamma": 0.9}, seed) - outcome({"method.gamma": 1.0}, seed)) for seed in study.plan.seeds
    ]
    tests = [stats.ttest_1samp(apart[: look.seeds], 0) for look in study.plan.looks[: len(claim.looks)]]
    wanted = [test.pvalue * 0.05 / look.level for test, look in zip(tests, study.plan.looks, strict=False)]
    assert claim.p == pytest.approx(min(wanted), rel=1e-9)
    for test, seen in zip(tests, claim.looks, strict=True):
        assert (seen.low, seen.high) == pytest.approx(test.confidence_interval(1 - seen.level), rel=1e-9)


def test_an_earlier_decision_that_the_plan_does_not_uphold_is_named_with_the_reason(tmp_path: Path) -> None:
    """Three seeds decide at 5 % but not at the first look's 0.8 %."""
    path, store = tmp_path / "mine.yaml", Store(tmp_path / "out")
    path.write_text(MINE + TABLES + CLAIM)
    study = expand(str(path), "quick", changes={}, only={}, seeds=None)
    gains = {1: 0.05, 2: 0.06, 3: 0.075}
    fill(store, study, lambda labels, seed: 0.5 + (gains[seed] if labels["method.gamma"] == 0.9 else 0.0))
    trials = stored_trials(study, store)
    (fixed,), (one, *_) = Standing.of(study, trials).claims, Standing.of(study, trials).comparisons
    assert (fixed.verdict, one.verdict) == ("holds", "holds")
    plan = deciding_plan(study.plan.seeds, 12, study.plan.margins, fixed_before=3)
    (looked,) = Standing.of(replace(study, plan=plan), trials).claims
    assert (looked.verdict, looked.before, looked.more) == ("open", "holds", True)
    assert any("'holds' by the earlier plan with one look at 5 %" in remark for remark in looked.remarks)


def test_expected_seeds_go_by_the_spreads_seen_so_far(tmp_path: Path) -> None:
    """What is all but decided needs one more look; what is half a standard deviation off needs nearly all seeds."""
    wanted = {}
    for name, gain in (("clear", 0.030), ("faint", 0.006)):
        folder = tmp_path / name
        folder.mkdir()
        path, store = folder / "mine.yaml", Store(folder / "out")
        path.write_text(MINE + TABLES + CLAIM + "margins: {test_accuracy: null}\n")
        study = expand(str(path), "quick", changes={}, only={"method.gamma": ["1", "0.9"]}, seeds=None)
        study = replace(study, plan=deciding_plan(study.plan.seeds, 12, study.plan.margins))
        noise = {1: -0.006, 2: 0.0, 3: 0.006}

        def outcome(labels: Any, seed: int, gain: float = gain, noise: dict[int, float] = noise) -> float:
            return 0.5 + (gain + noise[seed] if labels["method.gamma"] == 0.9 else 0.0)

        before = Standing.of(study, {})
        assert before.expected_seeds(study.plan) == {}, "nothing is known"
        assert set(before.most_seeds(study.plan).values()) == {12}
        assert set(before.next_seeds(study.plan).values()) == {3}
        fill(store, study, outcome)
        standing = Standing.of(study, stored_trials(study, store))
        assert set(standing.next_seeds(study.plan).values()) == {5}
        wanted[name] = set(standing.expected_seeds(study.plan).values())
        assert set(standing.most_seeds(study.plan).values()) == {12}
    assert max(wanted["clear"]) <= 6 and min(wanted["faint"]) >= 9


def test_a_question_with_divergence_behind_it_is_expected_to_take_all_looks(tmp_path: Path) -> None:
    """Both sides diverged in a seed: what further seeds bring cannot be told from the spread of the others."""
    path, store = tmp_path / "mine.yaml", Store(tmp_path / "out")
    path.write_text(MINE + TABLES)
    study = expand(str(path), "quick", changes={}, only={"method.gamma": ["1", "0.9"]}, seeds=None)
    study = replace(study, plan=deciding_plan(study.plan.seeds, 12, study.plan.margins))
    gain = {1.0: 0.0, 0.9: 0.02}
    fill(store, study, lambda labels, seed: "diverged" if seed == 3 else 0.5 + seed * gain[labels["method.gamma"]])
    standing = Standing.of(study, stored_trials(study, store))
    assert {(one.verdict, one.more) for one in standing.comparisons} == {("open", True)}
    assert set(standing.expected_seeds(study.plan).values()) == {12}
