"""A worker runs one trial after the other, and takes no more memory with each."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedbench.store.store import Store
from tests.commands import study as main

Command = Callable[..., tuple[int, str, str]]

A_TRIAL_LEAVES_LESS_THAN = 20e6  # bytes; the models of one cohort are 16e6


@pytest.mark.slow
@pytest.mark.usefixtures("one_cpu")
def test_a_worker_takes_no_more_memory_with_every_trial(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, error = command(main, "fixed_gamma", "--set", "rounds=1", "--seeds", "1", "--out", str(out))
    assert (code, error) == (0, "")
    store = Store(out)
    entries = sorted(store.trials.iterdir(), key=lambda entry: entry.stat().st_mtime_ns)
    trials = [store.get(entry.name) for entry in entries]
    peaks = [trial.summary["peak_memory_bytes"] for trial in trials if trial]
    assert len(peaks) == 10
    assert peaks[-1] - peaks[0] < 9 * A_TRIAL_LEAVES_LESS_THAN, peaks
