"""What is kept of a search: in Optuna's storage, through crashes at every point."""

from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from fedbench import UserError
from fedbench.searches.pruning import first_rung
from fedbench.searches.report import suggestions_frame
from fedbench.searches.suggestions import AGAIN, RESULT, Suggestions, open_storage, outcome, sole_driver
from fedbench.specs.space import expand_space

SPACE = """
title: Mine
tunes: something
base: {data.train_size: 300, data.test_size: 200, clients.count: 5, rounds: 10, method.name: fixed_gamma}
parameters:
  method.gamma: {uniform: [0.5, 0.9]}
trials: 4
suggestion_seeds: [1, 2]
seeds: [8, 9]
scales: {quick: {}}
"""


@pytest.fixture
def search(tmp_path: Path) -> Suggestions:
    return opened(tmp_path)


def opened(folder: Path, text: str = SPACE, name: str = "mine.yaml") -> Suggestions:
    (folder / name).write_text(text)
    space = expand_space(str(folder / name), "quick", changes={})
    return Suggestions.open(open_storage(f"sqlite:///{folder / 'optuna.sqlite3'}"), space, space.arms[0])


def ask(search: Suggestions, scores: dict[int, float]) -> optuna.Trial:
    """A suggestion that has reported some rounds."""
    trial = search.study.ask()
    search.arm.parameters[0].suggest(trial)
    for round_, score in scores.items():
        trial.report(score, round_)
    return trial


def result(kind: str, score: float | None, rounds: int, reason: str = "") -> dict[str, Any]:
    return {"outcome": kind, "score": score, "rounds": rounds, "reason": reason, "seconds": 1.0}


def test_the_best_is_picked_only_among_those_that_ran_all_rounds(search: Suggestions) -> None:
    search.record(ask(search, {1: 0.5, 10: 0.6}), result("done", 0.6, 10))
    search.record(ask(search, {1: 0.9}), result("stopped", 0.9, 1))
    search.record(ask(search, {1: 0.95}), result("diverged", None, 2, "seed 1: round 2: blown up"))
    best = search.best
    assert best is not None
    assert (best.number, best.value) == (0, 0.6)
    assert search.study.best_trial.number == 0  # what Optuna, its plots and its dashboard say
    assert [trial.state for trial in search.trials] == [TrialState.COMPLETE, TrialState.PRUNED, TrialState.PRUNED]
    assert (search.left, search.rounds_run, search.rounds_saved) == (1, 13, 9)
    assert list(suggestions_frame([search])["outcome"]) == ["done", "stopped", "diverged"]


def test_stale_suggestions_are_failed_and_their_parameters_come_first(search: Suggestions) -> None:
    first, second = ask(search, {1: 0.5}), ask(search, {})
    search.record(ask(search, {10: 0.7}), result("done", 0.7, 10))
    assert search.reclaim(crashed=True) == 2
    assert search.reclaim(crashed=True) == 0  # once each
    assert [trial.state for trial in search.trials[:3]] == [TrialState.FAIL, TrialState.FAIL, TrialState.COMPLETE]
    again = [ask(search, {}) for _ in range(2)]
    assert [trial.params for trial in again] == [first.params, second.params]
    assert [trial.user_attrs[AGAIN] for trial in again] == [first.number, second.number]
    # killed once more, before the second one had asked for its values
    assert search.reclaim(crashed=True) == 2
    assert [ask(search, {}).params for _ in range(2)] == [first.params, second.params]
    assert search.left == 3


def test_a_suggestion_put_back_but_not_asked_for_its_values_keeps_its_parameters(search: Suggestions) -> None:
    first = ask(search, {})
    search.reclaim(crashed=True)
    search.study.ask()  # killed here
    search.reclaim(crashed=True)
    assert ask(search, {}).params == first.params


def test_a_result_that_was_stored_but_not_told_is_told_not_run_again(search: Suggestions) -> None:
    trial = ask(search, {10: 0.8})
    trial.set_user_attr(RESULT, result("done", 0.8, 10))  # killed here
    assert search.reclaim(crashed=True) == 0
    assert [(t.state, t.value) for t in search.trials] == [(TrialState.COMPLETE, 0.8)]
    assert search.left == 3


def test_a_crash_counts_for_nothing_and_is_tried_again_by_the_next_command_only(search: Suggestions) -> None:
    trial = ask(search, {})
    search.record(trial, result("failed", None, 0, "ValueError: x"))
    assert search.left == 4
    assert search.reclaim(crashed=False) == 0
    assert search.reclaim(crashed=True) == 1
    again = ask(search, {10: 0.5})
    assert again.params == trial.params
    search.record(again, result("done", 0.5, 10))
    assert [outcome(ended) for ended in search.ended] == ["done"]


def test_a_suggestion_whose_process_died_is_put_back_at_once(search: Suggestions) -> None:
    trial = ask(search, {1: 0.5})
    search.study.tell(trial.number, state=TrialState.FAIL)  # no result: nobody knows how it ended
    assert search.reclaim(crashed=False) == 1
    assert ask(search, {}).params == trial.params


SPREAD = SPACE.replace("uniform: [0.5, 0.9]", "uniform: [0.5, 1.0]").replace("trials: 4", "trials: 16")


def run_through(search: Suggestions, sampler: str, count: int) -> None:
    """Run so many suggestions one after the other; the score is the suggested value."""
    for _ in range(count):
        trial, _ = search.ask(sampler)
        score = float(trial.params["method.gamma"])
        trial.report(score, 10)
        search.record(trial, result("done", score, 10))


def suggested(search: Suggestions) -> list[float]:
    """The values of the suggestions that have ended, in their order."""
    return [trial.params["method.gamma"] for trial in search.ended]


@pytest.mark.parametrize("sampler", ["random", "tpe"])
@pytest.mark.parametrize("interrupted_after", [0, 1, 5, 11])
def test_an_interrupted_search_suggests_what_one_in_one_go_does(
    tmp_path: Path, sampler: str, interrupted_after: int
) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole, parts = opened(tmp_path / "whole", SPREAD), opened(tmp_path / "parts", SPREAD)
    run_through(whole, sampler, 12)
    run_through(parts, sampler, interrupted_after)
    parts.ask(sampler)  # killed here
    again = opened(tmp_path / "parts", SPREAD)
    again.reclaim(crashed=True)
    run_through(again, sampler, 12 - interrupted_after)
    assert suggested(again) == suggested(whole)
    assert len(set(suggested(whole))) == 12


def stopped_at(search: Suggestions, scores: dict[int, float]) -> int | None:
    """The round in which a suggestion with these scores is stopped early; None if it runs to its end."""
    search.study.pruner = search.pruner(True)
    trial, _ = search.ask("random")
    for round_, score in scores.items():
        trial.report(score, round_)
        if trial.should_prune():
            search.record(trial, result("stopped", score, round_))
            return round_
    search.record(trial, result("done", score, round_))
    return None


def constant(score: float) -> dict[int, float]:
    """The same score in each of ten rounds."""
    return dict.fromkeys(range(1, 11), score)


def test_a_continued_search_stops_as_many_suggestions_as_one_in_one_go(tmp_path: Path) -> None:
    scores = [0.5, 0.6, 0.7, 0.1, 0.65, 0.2, 0.8, 0.75]
    found = []
    for name, reopen in (("whole", False), ("parts", True)):
        (tmp_path / name).mkdir()
        search = opened(tmp_path / name, SPREAD)
        rounds = []
        for score in scores:
            search = opened(tmp_path / name, SPREAD) if reopen else search
            rounds.append(stopped_at(search, constant(score)))
        found.append(rounds)
    assert found[0] == found[1]
    assert found[0][3] == 4, "the first rung, of a third of all rounds, stops what is not among the best third"
    assert found[0][6] is None, "the best so far goes on"


def test_a_suggestion_that_was_interrupted_does_not_count_twice_for_those_after_it(tmp_path: Path) -> None:
    found = []
    for name, again in (("once", 0), ("interrupted", 3)):
        (tmp_path / name).mkdir()
        search = opened(tmp_path / name, SPREAD)
        search.study.pruner = search.pruner(True)
        for _ in range(again):  # it is the best, and interrupted behind the first rung
            trial, _ = search.ask("random")
            for round_ in range(1, 6):
                trial.report(0.9, round_)
            assert not trial.should_prune()
            search.reclaim(crashed=True)
        found.append([stopped_at(search, constant(score)) for score in (0.9, 0.5, 0.6, 0.7, 0.8)])
    assert found[0] == found[1]


def test_nothing_is_stopped_early_unless_that_is_asked_for(search: Suggestions) -> None:
    search.study.pruner = search.pruner(False)
    for score in (0.9, 0.8, 0.7, 0.1):
        trial, _ = search.ask("random")
        for round_ in range(1, 11):
            trial.report(score, round_)
            assert not trial.should_prune()
        search.record(trial, result("done", score, 10))


def test_the_rungs_lie_at_a_third_and_not_in_the_first_rounds() -> None:
    assert {rounds: first_rung(rounds) for rounds in (1, 2, 15, 40, 45, 200)} == {
        **{1: 1, 2: 1, 15: 5, 40: 5, 45: 5, 200: 23}
    }


def test_a_loss_is_searched_for_its_least(tmp_path: Path) -> None:
    search = opened(tmp_path, SPACE.replace("trials: 4", "trials: 4\nmetric: validation_loss"))
    for score in (0.5, 0.3, 0.4):
        search.record(ask(search, {10: score}), result("done", score, 10))
    best = search.best
    assert best is not None
    assert best.value == search.study.best_value == 0.3


def test_another_space_in_the_same_storage_is_an_error_that_says_what_to_do(
    search: Suggestions, tmp_path: Path
) -> None:
    ask(search, {})
    opened(tmp_path, SPACE.replace("trials: 4", "trials: 9"))
    with pytest.raises(
        UserError, match=r"another space \(other parameters, settings\); name another --out or --storage"
    ):
        opened(tmp_path, SPACE.replace("[0.5, 0.9]", "[0.4, 0.9]"))
    opened(tmp_path, SPACE.replace("[0.5, 0.9]", "[0.4, 0.9]"), name="other.yaml")  # another name is another search


def test_two_commands_cannot_run_one_search_at_a_time(tmp_path: Path) -> None:
    with (
        sole_driver(tmp_path),
        pytest.raises(UserError, match="another command is running this search"),
        sole_driver(tmp_path),
    ):
        pass
    with sole_driver(tmp_path):
        pass


def test_the_worst_client_on_the_validation_set_can_be_searched_for(tmp_path: Path) -> None:
    search = opened(tmp_path, SPACE.replace("trials: 4", "trials: 4\nmetric: validation_worst_client"))
    for score in (0.5, 0.3, 0.4):
        search.record(ask(search, {10: score}), result("done", score, 10))
    assert search.best is not None and search.best.value == 0.5
    configs = search.space.suggestion(search.arm.fixed)
    assert all(config.indicators.client_validation for config in configs), "it is recorded in every round"
    assert search.space.shown(0.5) == "50.00 %"
