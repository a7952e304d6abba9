from collections.abc import Callable

import pytest
from rich.console import Console

from fedbench import TrialConfig
from fedbench.console import progress as module
from fedbench.console.progress import RunProgress, Score, SearchProgress, StudyProgress
from fedbench.simulation import Simulation, drive

Make = Callable[..., TrialConfig]


def test_a_log_names_trials_by_what_differs_and_says_now_and_then_what_runs(
    tiny: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = {config.hash: config for config in (tiny(seed=1, rounds=50), tiny(seed=2, rounds=50))}
    names = dict(zip(trials, ("alpha 1 [ours], seed 1", "alpha 1 [ours], seed 2"), strict=True))
    first, second = trials
    progress = StudyProgress(trials, names, Console(force_terminal=False))
    progress.update(first, 3, Score(0.25, 3))
    assert capsys.readouterr().out == "", "not every round is a line"
    monkeypatch.setattr(module, "LOG_EVERY", 0.0)
    progress.update(second, 7, Score(0.5, 7))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(
        "running: alpha 1 [ours], seed 1: round 3/50, 25.00 %; alpha 1 [ours], seed 2: round 7/50, 50.00 %"
    )
    progress.ended(first, "done", "final 61.00 %")
    assert capsys.readouterr().out.startswith("1/2 done, 1 running, 0 waiting, ")
    progress.warn("x [y]")
    progress.warn("x [y]")
    assert capsys.readouterr().err == "warning: x [y]\n"


def test_the_time_left_goes_by_the_rounds_alone_not_by_how_long_ray_took_to_start(
    tiny: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    trials = {config.hash: config for config in (tiny(seed=1, rounds=50), tiny(seed=2, rounds=50))}
    first, second = trials
    progress = StudyProgress(trials, dict.fromkeys(trials, "x"), Console(force_terminal=False))
    now += 90  # Ray starts
    progress.update(first, 1, Score(0.25, 1))
    (line,) = capsys.readouterr().out.splitlines()
    assert "left" not in line, "one round tells nothing"
    now += 2
    progress.update(second, 31, Score(0.25, 31))  # resumed: 30 rounds were there
    capsys.readouterr()
    now += 98
    progress.update(second, 50, Score(0.25, 50))
    (line,) = capsys.readouterr().out.splitlines()
    assert ", 0:04:05 left; running" in line, "20 rounds in 100 seconds, and 49 to come"


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_said_stays_on_the_screen(terminal: bool, tiny: Make, capsys: pytest.CaptureFixture[str]) -> None:
    config = tiny(rounds=50)
    said = f"dashboard: http://127.0.0.1:8265 (it asks for the token in {'/long' * 20})"
    console = Console(force_terminal=terminal, width=80)
    with StudyProgress({config.hash: config}, {config.hash: "x"}, console) as progress:
        progress.say(said)
        progress.update(config.hash, 1, Score(0.25, 1))
    assert f"{said}\n" in capsys.readouterr().out


def test_a_log_says_which_round_the_accuracy_belongs_to(
    tiny: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_EVERY", 0.0)
    config = tiny(rounds=50, eval_every=5)
    progress = StudyProgress({config.hash: config}, {config.hash: "x"}, Console(force_terminal=False))
    lines = []
    for round_, score in ((3, None), (5, Score(0.25, 5)), (7, Score(0.25, 5))):
        progress.update(config.hash, round_, score)
        lines.append(capsys.readouterr().out.partition("running: ")[2])
    assert lines == ["x: round 3/50\n", "x: round 5/50, 25.00 %\n", "x: round 7/50, 25.00 % (round 5)\n"]


def test_a_run_says_which_round_its_scores_belong_to(
    tiny: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAIN_EVERY", 0.0)
    config = tiny(rounds=13, eval_every=2)  # the last ten rounds are scored anyway
    drive(Simulation(config), [RunProgress(config.rounds, Console(force_terminal=False))])
    first, second, third, *_ = capsys.readouterr().out.splitlines()
    assert "accuracy" not in first and "nan" not in first
    scores = second.split("  ")[1:3]
    assert scores[0].startswith("accuracy ")
    assert "(round" not in second
    assert third.split("  ")[1:3] == [scores[0], f"{scores[1]} (round 2)"]


def test_a_search_says_which_round_a_score_belongs_to() -> None:
    progress = SearchProgress("x", 0, 3, 20, lambda score: f"{score:.2f}", Console(force_terminal=False))
    lines = []
    for round_, score in ((1, None), (2, 0.5), (3, None)):
        progress.update(7, round_, score)
        lines.append(progress.latest)
    assert lines == [
        "suggestion 7: round 1/20",
        "suggestion 7: round 2/20, 0.50",
        "suggestion 7: round 3/20, 0.50 (round 2)",
    ]


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"  # clears the screen, renames the window, turns text around


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_in_names_and_reasons_is_obeyed_by_the_terminal(
    terminal: bool, tiny: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(rounds=50)
    console = Console(force_terminal=terminal, width=200)
    with StudyProgress({config.hash: config}, {config.hash: f"name{HOSTILE}"}, console) as progress:
        progress.say(f"said{HOSTILE}")
        progress.warn(f"warned{HOSTILE}")
        progress.update(config.hash, 1, Score(0.25, 1))
        progress.held(config.hash, f"holder{HOSTILE}")
        progress.ended(config.hash, "failed", f"failed: reason{HOSTILE}")
    with SearchProgress(f"label{HOSTILE}", 0, 1, 3, str, console) as searching:
        searching.update(1, 1, 0.5)
        searching.ended(1, {"x": HOSTILE}, "failed", None, f"reason{HOSTILE}")
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert not any(bad in text for bad in ("\x1b[2J", "\x1b]0", "\x07", "\x9b", "\u202e"))
        assert "\\x1b[2J" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "0:00:05"), (3725, "1:02:05"), (86_400, "24:00:00"), (90_000, "1.0 days"), (86_400 * 1846.2, "1,846.2 days")],
)
def test_a_time_over_a_day_is_in_days(seconds: float, text: str) -> None:
    assert module.clock(seconds) == text
