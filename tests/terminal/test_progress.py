from collections.abc import Callable

import pytest
from rich.console import Console

from fedbench import TrialConfig
from fedbench.terminal import progress as module
from fedbench.terminal.progress import StudyProgress

Make = Callable[..., TrialConfig]


def test_a_log_names_trials_by_what_differs_and_says_now_and_then_what_runs(
    tiny: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = {config.hash: config for config in (tiny(seed=1, rounds=50), tiny(seed=2, rounds=50))}
    names = dict(zip(trials, ("alpha 1 [ours], seed 1", "alpha 1 [ours], seed 2"), strict=True))
    first, second = trials
    progress = StudyProgress(trials, names, Console(force_terminal=False))
    progress.update(first, 3, 0.25)
    assert capsys.readouterr().out == "", "not every round is a line"
    monkeypatch.setattr(module, "LOG_EVERY", 0.0)
    progress.update(second, 7, 0.5)
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
    progress.update(first, 1, 0.25)
    (line,) = capsys.readouterr().out.splitlines()
    assert "left" not in line, "one round tells nothing"
    now += 2
    progress.update(second, 31, 0.25)  # resumed: 30 rounds were there
    capsys.readouterr()
    now += 98
    progress.update(second, 50, 0.25)
    (line,) = capsys.readouterr().out.splitlines()
    assert ", 0:04:05 left; running" in line, "20 rounds in 100 seconds, and 49 to come"


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_said_stays_on_the_screen(terminal: bool, tiny: Make, capsys: pytest.CaptureFixture[str]) -> None:
    config = tiny(rounds=50)
    said = f"dashboard: http://127.0.0.1:8265 (it asks for the token in {'/long' * 20})"
    console = Console(force_terminal=terminal, width=80)
    with StudyProgress({config.hash: config}, {config.hash: "x"}, console) as progress:
        progress.say(said)
        progress.update(config.hash, 1, 0.25)
    assert f"{said}\n" in capsys.readouterr().out
