"""Every method on every kind of model, every model with the two main methods: finite, recorded, resumable."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedbench import TrialConfig
from fedbench.methods import METHODS
from fedbench.models import MODELS
from fedbench.simulation import Simulation, checkpoint
from tests.conftest import timeless

Make = Callable[..., TrialConfig]

BUILT_IN_METHODS = [name for name in METHODS if METHODS.version(name) is None]
BUILT_IN_MODELS = [name for name in MODELS if MODELS.version(name) is None]
LIGHT = ["mlp", "simple_cnn", "resnet8"]
HEAVY = ["alexnet", "densenet121", "wrn56_4"]
CASES = [(method, model) for method in BUILT_IN_METHODS for model in LIGHT]
CASES += [(method, model) for method in ("fedavg", "fedlaw") for model in BUILT_IN_MODELS if model not in LIGHT]
SMALL = {
    "data__train_size": 24,
    "data__test_size": 40,
    "clients__count": 3,
    "data__partition": "iid",
    "proxy__size": 20,
}
SMALLEST = {**SMALL, "data__train_size": 10, "data__test_size": 20, "clients__count": 2, "proxy__size": 10}


def test_there_are_twelve_models() -> None:
    assert len(BUILT_IN_MODELS) == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model"), [pytest.param(*case, marks=[pytest.mark.thorough] * (case[1] in HEAVY)) for case in CASES]
)
def test_two_rounds_are_finite_recorded_and_resumable(tiny: Make, tmp_path: Path, method: str, model: str) -> None:
    if method == "flower":
        pytest.importorskip("flwr", reason="flwr is not installed: pip install -e '.[flower]'")
    size = SMALL if model in LIGHT else SMALLEST
    settings: dict[str, Any] = {**size, "model": model, "method__name": method, "rounds": 2, "clients__epochs": 1}
    if "epochs" in METHODS.get(method).Settings.model_fields:
        settings["method__epochs"] = 2
    if "f" in METHODS.get(method).Settings.model_fields:
        settings["method__f"] = 0.0  # there are few clients
    config = tiny(**settings)
    first = Simulation(config)
    first.step()
    checkpoint.save(first, tmp_path)
    first.step()
    records = first.state.history
    assert not records[-1].diverged
    for record in records:
        assert not record.lambda_ or sum(record.lambda_) == pytest.approx(1, abs=1e-5)
        values = [record.test_loss, record.train_loss, record.gamma, record.norm_w]
        values += [record.coherence_mean] if len(record.clients) > 1 else []
        assert all(value is not None and math.isfinite(value) for value in values)
    second = Simulation(config)
    assert checkpoint.restore(second, tmp_path) == []
    second.step()
    assert timeless(second.state.history) == timeless(records)
