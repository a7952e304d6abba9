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
