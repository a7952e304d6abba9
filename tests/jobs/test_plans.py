"""The stored plan of a study: made before the first look, and kept whatever is asked for afterwards."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedbench.base.errors import UserError
from fedbench.jobs.options import request
from fedbench.jobs.plans import can_be_decided, decided_with, plan_file, planned, store_plan
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.store.store import Store
from tests.analysis.helpers import MINE, fill

REST = """seeds: [8, 9]
tables: {accuracy: {rows: [data.alpha], columns: [method.gamma]}}
scales: {quick: {}, tiny: {}}
"""


def small(folder: Path, more: str = "", text: str = MINE + REST, scale: str = "quick") -> ScaledStudy:
    path = folder / "mine.yaml"
    path.write_text(text + more)
    return expand(str(path), scale, changes={}, only={}, seeds=None)


def accuracy(labels: Any, seed: int) -> float:
    return 0.5 + 0.01 * seed


def test_seeds_come_in_a_fixed_order_after_those_of_the_file(tmp_path: Path) -> None:
    study = planned(small(tmp_path), Store(tmp_path / "out"), 12)
    assert study.plan.seeds == list(range(8, 20))
    assert [tuple(look) for look in study.plan.looks] == [(3, 0.008), (5, 0.012), (8, 0.014), (12, 0.016)]
    assert sum(look.level for look in study.plan.looks) == pytest.approx(0.05)
    assert study.counts == [3] and study.seeds == [8, 9, 10]
    longest = planned(small(tmp_path), Store(tmp_path / "out"), 20).plan
    assert longest.seeds == list(range(8, 28)) and sum(look.level for look in longest.looks) <= 0.05 + 1e-9


def test_once_a_trial_has_ended_neither_seeds_nor_margins_nor_looks_can_be_changed(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    study = planned(small(tmp_path), store, 12)
    store_plan(study, store)
    changed = planned(small(tmp_path, "margins: {test_accuracy: 3}\n"), store, 8)
    assert (changed.plan.margins, len(changed.plan.seeds)) == ({"test_accuracy": 3}, 8), "nothing has been seen yet"
    fill(store, study, accuracy)
    with pytest.raises(UserError, match=r"plan\.json: .*looks at 3, 5, 8 and 12 seeds.*name another folder with --out"):
        planned(small(tmp_path), store, 8)
    for most in (None, 12):
        kept = planned(small(tmp_path, "margins: {test_accuracy: 3}\n"), store, most)
        assert kept.plan == study.plan


def test_a_report_without_decide_shows_all_seeds_that_were_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    study = planned(small(tmp_path), store, 12)
    store_plan(study, store)
    one = study.with_seeds(lambda cell: study.plan.seeds[: 5 if cell.labels["data.alpha"] == 1 else 3])
    fill(store, one, accuracy)
    again = planned(small(tmp_path), store)
    assert again.counts == [3, 5] and again.outside == []
    assert again.trials.keys() == one.trials.keys()


def test_a_fixed_plan_stays_when_the_file_names_more_seeds_after_the_results_are_seen(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    study = planned(small(tmp_path), store)
    store_plan(study, store)
    fill(store, study, accuracy)
    more = planned(small(tmp_path, text=(MINE + REST).replace("[8, 9]", "[8, 9, 10]")), store)
    assert (more.plan.seeds, more.outside, more.seeds) == ([8, 9], [10], [8, 9, 10])


def test_deciding_after_a_fixed_run_says_that_there_was_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    assert planned(small(tmp_path), store, 12).plan.fixed_before is None
    study = planned(small(tmp_path), store)
    store_plan(study, store)
    fill(store, study, accuracy)
    looked = planned(small(tmp_path), store, 12)
    assert looked.plan.fixed_before == 2 and looked.plan.seeds[:2] == [8, 9]
    store_plan(looked, store)
    assert planned(small(tmp_path), store).plan == looked.plan


@pytest.mark.parametrize("content", ["", "{}", '{"seeds": [1], "looks": [[3, 0.05]], "margins": {}}', "\x00"])
def test_a_damaged_plan_is_one_line(tmp_path: Path, content: str) -> None:
    study, store = small(tmp_path), Store(tmp_path / "out")
    path = plan_file(study, store)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(UserError, match=r"plan\.json: is no plan of seeds"):
        planned(study, store)


def test_a_file_says_that_it_is_to_be_decided_but_not_at_scale_tiny(tmp_path: Path) -> None:
    for text, wanted in (("", None), ("decide: false\n", None), ("decide: true\n", 12), ("decide: 20\n", 20)):
        assert decided_with(small(tmp_path, text), None) == wanted
        assert decided_with(small(tmp_path, text), 8) == 8
    assert decided_with(small(tmp_path, "decide: true\n", scale="tiny"), None) is None
    with pytest.raises(UserError, match="decide"):
        small(tmp_path, "decide: 7\n")


def test_a_study_without_claims_and_baseline_has_nothing_to_decide(tmp_path: Path) -> None:
    study = small(tmp_path)
    assert can_be_decided(study)
    alone = replace(study, study=study.study.model_copy(update={"baseline": {}}))
    assert not can_be_decided(alone)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"decide": True, "seeds": [8]}, "--seeds: goes without --decide"),
        ({"most_seeds": 12}, "--most-seeds: goes with --decide"),
        ({"decide": True, "most_seeds": 7}, "--most-seeds 7: must be one of 5, 8, 12, 20"),
        ({"decide": True, "budget": -1}, "--budget -1.0: must be at least 0"),
        ({"decide": 12}, "decide = 12: must be True or False"),
    ],
)
def test_wrong_options_are_one_line(tmp_path: Path, keywords: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        request("smoke", "quick", tmp_path, keywords)
    assert str(error.value).startswith(message)
