"""Claims: what follows from evidence, and what does not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbench.base.errors import UserError
from fedbench.reports.checks.base import leave_one_out
from fedbench.reports.claims import Finding, check_claims
from fedbench.reports.report import stored_trials
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from tests.reports.helpers import MINE, fill, summary

STUDY = f"""{MINE}seeds: [1, 2, 3, 4]
tables: {{accuracy: {{rows: [data.alpha], columns: [method.gamma]}}}}
marks: {{data.alpha: {{"1": W}}}}
scales: {{quick: {{}}}}
claims: [%s]
"""


def findings(folder: Path, claim: str, outcome: Any) -> list[Finding]:
    """What is found for one claim in a store filled by `outcome(labels, seed)`."""
    path = folder / "mine.yaml"
    path.write_text(STUDY % f"{{says: It is so, {claim}}}")
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(folder / "out")
    fill(store, study, outcome)
    return check_claims(study, stored_trials(study, store))


def verdicts(folder: Path, claim: str, outcome: Any) -> list[str]:
    return [found.verdict for found in findings(folder, claim, outcome)]


def falling(labels: Any, seed: int) -> float:
    """A little worse with every step of gamma, much worse at alpha 1, with a little noise of the seed."""
    gamma, alpha = float(labels["method.gamma"]), float(labels["data.alpha"])
    return 0.5 + 0.1 * gamma + 0.001 * alpha + 0.0001 * seed * gamma


@pytest.mark.parametrize(
    ("claim", "wanted"),
    [
        ("check: beats, point: {method.gamma: 0.9}", "fails"),
        ("check: beats, point: {method.gamma: 0.9}, wins: lower", "holds"),
        ("check: beats, point: {method.gamma: 0.9}, against: {method.gamma: 0.8}", "holds"),
        ("check: comparable, point: {method.gamma: 0.9}, margin: 2", "holds"),
        ("check: comparable, point: {method.gamma: 0.9}, margin: 0.1", "fails"),
        ("check: trend, axis: method.gamma, direction: rises", "holds"),
        ("check: trend, axis: method.gamma, direction: falls", "fails"),
        ("check: extreme, axis: method.gamma, at: 0.8, which: smallest", "holds"),
        ("check: extreme, axis: method.gamma, at: 0.8, which: largest", "fails"),
        ("check: some_point_beats_baseline, axis: method.gamma", "fails"),
        ("check: within, low: 50, high: 80, where: {method.gamma: [0.9]}", "holds"),
        ("check: within, low: 90, where: {method.gamma: [0.9]}", "fails"),
        ("check: beats, point: {method.gamma: 0.9}, value: r", "no data"),
        ("check: beats, point: {method.gamma: 0.9}, wins: lower, by: 0.5", "holds"),
        ("check: beats, point: {method.gamma: 0.9}, wins: lower, by: 2", "fails"),
        ("check: inner_optimum, axis: method.gamma", "fails"),
        ("check: inner_optimum, axis: method.gamma, best: lowest", "fails"),
    ],
)
def test_a_clear_case_is_decided(tmp_path: Path, claim: str, wanted: str) -> None:
    assert verdicts(tmp_path, claim, falling) == [wanted, wanted]


def test_steps_of_an_axis_count_from_small_to_large_however_it_is_written(tmp_path: Path) -> None:
    claim = "check: trend, axis: data.alpha, direction: rises"
    assert verdicts(tmp_path, claim, falling) == ["holds"] * 3


def hill(labels: Any, seed: int) -> float:
    """Best in the middle of gamma, and steeper at alpha 1."""
    steep = 1.0 if labels["data.alpha"] == 1 else 0.2
    return 0.6 - steep * abs(float(labels["method.gamma"]) - 0.9) + 0.0001 * seed


@pytest.mark.parametrize(
    ("claim", "wanted"),
    [
        ("check: inner_optimum, axis: method.gamma", ["holds", "holds"]),
        ("check: inner_optimum, axis: method.gamma, best: lowest", ["fails", "fails"]),
        ("check: steadier, axis: method.gamma, point: {data.alpha: 100}, against: {data.alpha: 1}", ["holds"]),
        ("check: steadier, axis: method.gamma, point: {data.alpha: 1}, against: {data.alpha: 100}", ["fails"]),
    ],
)
def test_an_optimum_inside_and_how_steep_it_is(tmp_path: Path, claim: str, wanted: list[str]) -> None:
    assert verdicts(tmp_path, claim, hill) == wanted


def test_an_optimum_inside_needs_both_ends(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> float | str:
        return "diverged" if (labels["method.gamma"], seed) == (0.8, 1) else hill(labels, seed)

    assert verdicts(tmp_path, "check: inner_optimum, axis: method.gamma", outcome) == ["no data"] * 2


@pytest.mark.parametrize(("direction", "wanted"), [("rises", "holds"), ("falls", "fails")])
def test_a_distance_between_two_points_can_grow_along_an_axis(tmp_path: Path, direction: str, wanted: str) -> None:
    def outcome(labels: Any, seed: int) -> float:
        """At alpha 1 accuracy rises with gamma, at alpha 100 it does not."""
        return 0.5 + 0.0001 * seed + (float(labels["method.gamma"]) / 10 if labels["data.alpha"] == 1 else 0.0)

    points = "point: {data.alpha: 1}, against: {data.alpha: 100}"
    claim = f"check: trend_of_difference, axis: method.gamma, direction: {direction}, {points}"
    (found,) = findings(tmp_path, claim, outcome)
    assert found.verdict == wanted
    assert abs(found.spread.mean or 0) == pytest.approx(1.0)


@pytest.mark.parametrize(("direction", "wanted"), [("rises", "fails"), ("falls", "holds")])
def test_a_metric_can_go_with_another_over_all_cells(tmp_path: Path, direction: str, wanted: str) -> None:
    def outcome(labels: Any, seed: int) -> dict[str, Any]:
        size = float(labels["method.gamma"]) * float(labels["data.alpha"]) + seed
        return {**summary(0.5), "middle_norm_opt": size, "middle_gamma": 1 / size if seed > 1 else 2 - size}

    axes = "axes: [data.alpha, method.gamma]"
    claim = f"check: goes_with, value: gamma, other: norm_opt, {axes}, direction: {direction}"
    (found,) = findings(tmp_path, claim, outcome)
    assert found.verdict == wanted
    assert abs(found.spread.mean or 0) == pytest.approx(1.0)


def test_cells_that_are_taken_together_are_their_mean(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, "check: within, low: 0, where: {method.gamma: [0.9]}, over: [data.alpha]", falling)
    assert found.spread.mean == pytest.approx(50 + 9 + (10 + 0.1) / 2 + 0.01 * 0.9 * 2.5)
    assert found.at == ""


def test_cells_that_are_taken_together_need_all_of_them(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> float | None:
        return None if (labels["data.alpha"], seed) == (1, 4) else falling(labels, seed)

    (found,) = findings(tmp_path, "check: within, low: 0, where: {method.gamma: [0.9]}, over: [data.alpha]", outcome)
    assert (found.verdict, found.spread.n) == ("inconclusive", 3)


def test_a_claim_along_an_axis_rests_on_a_guess_if_one_of_its_points_does(tmp_path: Path) -> None:
    (found, *_) = findings(tmp_path, "check: trend, axis: data.alpha, direction: rises", falling)
    assert found.guessed == ["data.alpha"]


def test_a_difference_that_seeds_do_not_agree_on_is_inconclusive(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> float:
        return 0.5 + (0.01 * (-1) ** seed if labels["method.gamma"] == 0.9 else 0.0)

    assert verdicts(tmp_path, "check: beats, point: {method.gamma: 0.9}", outcome) == ["inconclusive"] * 2


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        "check: beats, point: {method.gamma: 0.9}, wins: lower",
        lambda labels, seed: falling(labels, seed) if seed == 1 else None,
    )
    assert [f.verdict for f in found] == ["inconclusive"] * 2
    assert "one seed" in found[0].evidence


@pytest.mark.parametrize(
    "claim",
    ["check: some_point_beats_baseline, axis: method.gamma", "check: trend, axis: method.gamma, direction: rises"],
)
def test_one_seed_decides_nothing_about_an_axis_either(tmp_path: Path, claim: str) -> None:
    found = findings(tmp_path, claim, lambda labels, seed: falling(labels, seed) if seed == 1 else None)
    assert [f.verdict for f in found] == ["inconclusive"] * 2
    assert "one seed" in found[0].evidence


def test_survivors_decide_nothing(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> float | str:
        if labels["method.gamma"] == 0.9:
            return "diverged" if seed > 2 else 0.9 + 0.001 * seed
        return 0.5

    found = findings(tmp_path, "check: beats, point: {method.gamma: 0.9}", outcome)
    assert [f.verdict for f in found] == ["inconclusive"] * 2
    assert "only 2 of 4 seeds" in found[0].evidence


def test_a_point_that_diverged_does_not_silence_the_others(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> float | str:
        if labels["method.gamma"] == 0.9 and seed > 1:
            return "diverged"
        return float(0.5 + 0.1 * (labels["method.gamma"] == 0.8) + 0.0001 * seed * labels["method.gamma"])

    found = findings(tmp_path, "check: some_point_beats_baseline, axis: method.gamma", outcome)
    assert [f.verdict for f in found] == ["holds"] * 2
    assert "without 0.9: not all seeds there" in found[0].evidence


def test_a_trend_is_along_the_numbers_not_along_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = STUDY.replace("[1.0, 0.9, 0.8]", "[0.8, 1.0, 0.9, 0.85]")
    path.write_text(text % "{says: It is so, check: trend, axis: method.gamma, direction: rises}")
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    fill(store, study, lambda labels, seed: labels["method.gamma"] / 2)
    found = check_claims(study, stored_trials(study, store))
    assert found[0].spread.mean == pytest.approx(np.polyfit(range(4), [40, 42.5, 45, 50], 1)[0])


def test_evidence_has_its_interval_its_place_and_a_guessed_setting(tmp_path: Path) -> None:
    first, second = findings(tmp_path, "check: beats, point: {method.gamma: 0.9}, wins: lower", falling)
    assert (first.at, second.at) == ("alpha 100", "alpha 1")
    assert "4 seeds" in first.evidence
    assert f"[{first.spread.low:.2f}, {first.spread.high:.2f}]" in first.evidence
    assert (first.guessed, second.guessed) == ([], ["data.alpha"])


def test_a_relative_gain_is_paired_and_in_percent(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> float:
        return (0.3 + 0.1 * seed) * (1.1 if labels["method.gamma"] == 0.9 else 1.0)

    claim = "check: within, show: relative, low: 9.9, high: 10.1, where: {method.gamma: [0.9]}"
    assert verdicts(tmp_path, claim, outcome) == ["holds"] * 2


def test_a_metric_can_be_held_against_another_of_the_same_trial(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> dict[str, Any]:
        return {**summary(0.5), "middle_norm_opt": 2.0 + 0.01 * seed, "middle_norm_reg": 1.0}

    claim = "check: higher_than, value: norm_opt, than: norm_reg, where: {method.gamma: [0.9], data.alpha: [1]}"
    assert verdicts(tmp_path, claim, outcome) == ["holds"]


def test_a_claim_about_cells_that_are_left_out_is_not_decided_on_others(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(STUDY % "{says: It is so, check: within, low: 0, where: {method.gamma: [0.9]}}")
    study = expand(str(path), "quick", changes={}, only={"method.gamma": ["1"]}, seeds=None)
    store = Store(tmp_path / "out")
    fill(store, study, falling)
    assert [found.verdict for found in check_claims(study, stored_trials(study, store))] == ["no data"]


def test_the_best_of_noisy_points_is_chosen_without_the_seed_that_judges_it() -> None:
    """The maximum over points of the mean is above zero for pure noise; leave-one-out is not."""
    rng = np.random.default_rng(0)
    naive, fair = [], []
    for _ in range(300):
        noise = rng.normal(size=(5, 3))
        points: dict[Any, dict[int, float]] = {i: dict(enumerate(row)) for i, row in enumerate(noise.tolist())}
        naive.append(noise.mean(1).max())
        fair.append(np.mean(leave_one_out(points, dict.fromkeys(range(3), 0.0), np.argmax)[0]))
    assert np.mean(naive) > 0.5
    assert abs(np.mean(fair)) < 0.1


def test_a_real_winner_is_found_leave_one_out() -> None:
    points: dict[Any, dict[int, float]] = {0.9: {1: 1.0, 2: 1.1, 3: 0.9}, 0.8: {1: 3.0, 2: 3.2, 3: 2.9}}
    sample, chosen = leave_one_out(points, {1: 1.0, 2: 1.0, 3: 1.0}, np.argmax)
    assert sample == pytest.approx([2.0, 2.2, 1.9])
    assert chosen == [0.8] * 3


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("check: beets", "claims.1.check: unknown check 'beets'; did you mean 'beats'?"),
        ("check: beats, point: {data.alpha: 1}", "claims.1: has nothing to compare with"),
        ("check: some_point_beats_baseline, axis: data.alpha", "claims.1: needs a baseline on data.alpha"),
        ("check: beats, point: {method.gamma: 0.7}", "claims.1: unknown value of method.gamma '0.7'"),
        ("check: trend, axis: method.gama, direction: rises", "claims.1: unknown axis 'method.gama'"),
        ("check: trend, axis: method.gamma", "claims.1.direction is missing"),
        ("check: within, value: test_acuracy", "unknown metric 'test_acuracy'; did you mean 'test_accuracy'?"),
        ("check: within, lo: 3", "unknown key 'claims.1.lo' of within"),
        ("check: within, low: 3, over: [data.alfa]", "claims.1: unknown axis 'data.alfa'"),
        ("check: trend, axis: data.alpha, direction: rises, over: [data.alpha]", "claims.1: over names data.alpha"),
        ("check: steadier, axis: method.gamma, point: {method.gamma: 0.9}", "claims.1: point names method.gamma"),
        ("check: goes_with, value: r, other: norm, axes: [data.alpha], direction: falls", "unknown metric 'norm'"),
    ],
)
def test_a_wrong_claim_is_one_line(tmp_path: Path, claim: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        findings(tmp_path, claim, falling)
    assert message in str(raised.value)
    assert "mine" in str(raised.value)
