"""What somebody's own data and models do wrong is one line that says what was expected and what came."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedbench import ConfigError, TrialConfig, UserError, simulate
from fedbench.data.base import DATASETS, Arrays, register_dataset
from fedbench.models import MODELS, register_model
from fedbench.models.base import needs_two
from fedbench.simulation import Simulation
from fedbench.simulation.federation import load_arrays

Make = Callable[..., TrialConfig]
GOOD = DATASETS.get("mnist5k")


def arrays(**changes: Any) -> Callable[[Any], Arrays]:
    return lambda folder: GOOD.load(None)._replace(**changes)


def fail(folder: Any) -> Arrays:
    raise FileNotFoundError("digits.bin")


LOADERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "int32": (
        arrays(train_labels=np.zeros(4000, np.int32)),
        r"train labels are int32 \(4000,\); expected int64 \(4000,\)",
    ),
    "floats": (arrays(test_images=np.zeros((1000, 28, 28, 1))), "test images are float64 .*; expected uint8"),
    "a tuple of two": (lambda folder: (1, 2), "its loader gave tuple; expected Arrays of four numpy arrays"),
    "nothing": (lambda folder: None, "its loader gave NoneType; expected Arrays"),
    "an error": (fail, "cannot be read .FileNotFoundError: digits.bin."),
    "labels": (arrays(test_labels=np.full(1000, 10)), "a test label lies outside 0 ... 9"),
}


@pytest.mark.parametrize("case", LOADERS)
def test_data_that_are_not_what_was_described_are_one_line(case: str) -> None:
    loader, message = LOADERS[case]
    with pytest.raises(UserError, match=f"data set 'mine': {message}"):
        load_arrays(replace(GOOD, name="mine", load=loader), None)


def test_a_description_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="std, sizes, shape and number of classes must be above 0"):
        register_dataset(replace(GOOD, name="flat", std=0.0))


BUILDERS: dict[str, tuple[Callable[[Any, int], Any], str]] = {
    "seven": (
        lambda shape, n: nn.Sequential(nn.Flatten(), nn.Linear(784, 7)),
        r"it gives \[2, 7\] for 2 images of 10 classes",
    ),
    "lazy": (
        lambda shape, n: nn.Sequential(nn.Flatten(), nn.LazyLinear(n)),
        "it has lazy layers; give them their sizes",
    ),
    "empty": (lambda shape, n: nn.Flatten(), "it has no parameters to train"),
    "narrow": (lambda shape, n: nn.Sequential(nn.Flatten(), nn.Linear(99, n)), "it cannot take images of 1x28x28"),
    "none": (lambda shape, n: None, "its function gave NoneType; expected a torch module"),
    "broken": (lambda shape, n: 1 / 0, "cannot be built for 1x28x28 images .ZeroDivisionError"),
}


@pytest.mark.parametrize("case", BUILDERS)
def test_a_model_that_cannot_be_used_is_one_line_before_anything_runs(case: str) -> None:
    builder, message = BUILDERS[case]
    if f"wrong_{case}" not in MODELS:
        register_model(f"wrong_{case}")(builder)
    with pytest.raises(ConfigError, match=message) as raised:
        TrialConfig(model=f"wrong_{case}")
    assert "\n" not in str(raised.value)


def test_a_rest_of_one_sample_is_left_out_where_the_model_cannot_take_it(tiny: Make) -> None:
    if "vector_bn" not in MODELS:
        register_model("vector_bn")(
            lambda shape, n: nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.BatchNorm1d(8), nn.Linear(8, n))
        )
    config = tiny(model="vector_bn", data__partition="iid", data__train_size=165, clients__batch_size=32)
    simulation = Simulation(config)
    assert {len(shard) for shard in simulation.federation.split.shards} == {33}
    assert [record.diverged for record in simulate(config)] == [None] * 3
    assert not any(needs_two(name, (3, 32, 32), 10) for name in MODELS if MODELS.version(name) is None), "and no other"


def test_a_model_may_start_from_weights_in_a_file_without_a_word(
    tiny: Make, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    def net(n: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(784, n), nn.BatchNorm1d(n))

    def trained(shape: Any, n: int) -> nn.Module:
        module = net(n)
        module.load_state_dict(torch.load(tmp_path / "start.pt", map_location="cpu", weights_only=True))
        return module

    start = net(10)
    torch.save(start.state_dict(), tmp_path / "start.pt")
    if "from_file" not in MODELS:
        register_model("from_file")(trained)
    simulation = Simulation(tiny(model="from_file"))
    assert torch.equal(simulation.state.w[:7840], start[1].weight.detach().reshape(-1))  # type: ignore[index]
    simulation.step()
    assert not [str(warning.message) for warning in recwarn]
