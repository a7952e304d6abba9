"""What is registered must be of its kind, and is told so in one line."""

from typing import Any

import pytest

from fedbench.base.errors import ConfigError
from fedbench.data.base import Dataset, register_dataset
from fedbench.methods import register_method
from fedbench.metrics import register_metric
from fedbench.testing import check_method
from fedbench.trackers import register_tracker

DESCRIPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"shape": (6, 6)}, r"shape must be \(C, H, W\), is \(6, 6\)"),
    ({"train_size": "100"}, "sizes, shape and number of classes must be whole numbers"),
    ({"mean": "0"}, "mean and std must be numbers"),
    ({"load": 3}, "load must be a function that takes a folder"),
    ({"defaults": ["model"]}, "defaults must be values by config key"),
]


@pytest.mark.parametrize(("changes", "message"), DESCRIPTIONS)
def test_a_data_set_is_described_with_the_right_types(changes: dict[str, Any], message: str) -> None:
    described = {"shape": (1, 6, 6), "num_classes": 10, "train_size": 100, "test_size": 100, "load": print, **changes}
    with pytest.raises(ConfigError, match=f"data set 'wrong': {message}"):
        register_dataset(Dataset(name="wrong", **described))


def test_what_is_registered_is_of_its_kind() -> None:
    wrong: Any = 3
    with pytest.raises(ConfigError, match="metric 'wrong': must be a Metric, with a function that reads it"):
        register_metric("wrong", wrong)
    with pytest.raises(ConfigError, match="tracker 'wrong': must be a subclass of Tracker"):
        register_tracker("wrong")(wrong)
    with pytest.raises(ConfigError, match="int: a method must be a subclass of Method"):
        register_method()(int)  # type: ignore[type-var]


def test_a_method_is_not_checked_in_the_name_of_another() -> None:
    with pytest.raises(AssertionError, match="method 'fedavg': the settings name another, fedprox"):
        check_method("fedavg", {"method.name": "fedprox"})
