"""Fails when the same config gives other results than before: then raise config.SIMULATION_VERSION and renew GOLDEN."""

from typing import Any

import pytest

from fedbench import TrialConfig, simulate
from fedbench.config import SIMULATION_VERSION
from tests.conftest import TINY

GOLDEN_VERSION = 1
CASES: dict[str, dict[str, Any]] = {
    "mlp": {"clients.participation": 0.6, "clients.holdout": 0.2, "clients.corrupted": 0.4},
    "resnet8": {"model": "resnet8", "bn": "proxy", "data.partition": "hybrid", "data.train_size": 100},
}
# case -> (test loss, train loss, norm_w, coherence_mean) after the last round
GOLDEN: dict[str, tuple[float, float, float, float]] = {
    "mlp": (2.319117752331745, 1.9711195627212024, 11.809763259614595, -0.01190283966919166),
    "resnet8": (2.0888638232123693, 1.8621646854960159, 21.287695141096286, -0.0250670238392774),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_this_simulation_version(case: str) -> None:
    assert SIMULATION_VERSION == GOLDEN_VERSION
    record = list(simulate(TrialConfig(**{**TINY, **CASES[case], "precision": "float64"})))[-1]
    found = (record.test_loss, record.train_loss, record.norm_w, record.coherence_mean)
    assert found == pytest.approx(GOLDEN[case], rel=1e-8)
