"""Trials that failed or diverged are told together where they share a reason."""

from pathlib import Path
from typing import Any

from fedbench.analysis.trials import stored_trials, troubles
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from tests.analysis.helpers import fill


def test_equal_failures_are_one_line_with_their_cells_and_seeds(tmp_path: Path) -> None:
    study, store = expand("fixed_gamma", "quick", changes={}, only={}, seeds=None), Store(tmp_path)

    def outcome(labels: Any, seed: int) -> Any:
        gamma, alpha = labels["method.gamma"], labels["data.alpha"]
        if gamma == 0.9:
            return "failed: ValueError: no (mine.py, line 3, in aggregate)"
        if gamma == 0.95 and alpha == 100 and seed > 8:
            return "failed: ValueError: no (mine.py, line 4, in aggregate)"
        if gamma == 0.97:
            return f"diverged: round {seed}: non-finite loss or weights after local training of client 1, {seed}"
        return 0.5

    fill(store, study, outcome)
    assert [trouble.sentence for trouble in troubles(study, stored_trials(study, store))] == [
        "diverged: 6 trials: alpha 100, gamma 0.97; alpha 0.1, gamma 0.97 (seeds 8, 9, 10): "
        "round 8: non-finite loss or weights after local training of client 1, 8",
        "failed: 2 trials: alpha 100, gamma 0.95 (seeds 9, 10): ValueError: no (mine.py, line 4, in aggregate)",
        "failed: 6 trials: alpha 100, gamma 0.9; alpha 0.1, gamma 0.9 (seeds 8, 9, 10): "
        "ValueError: no (mine.py, line 3, in aggregate)",
    ]


def test_a_long_list_of_cells_is_cut(tmp_path: Path) -> None:
    study, store = expand("fixed_gamma", "quick", changes={}, only={}, seeds=[8]), Store(tmp_path)
    fill(store, study, lambda labels, seed: "failed: ValueError: no")
    (trouble,) = troubles(study, stored_trials(study, store))
    assert trouble.count == 10
    assert "alpha 0.1, gamma 1; and 4 more cells (seed 8): ValueError: no" in trouble.sentence
