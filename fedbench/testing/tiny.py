"""A federation that takes milliseconds a round, and in which nothing but the cohort has the cohort's size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from fedbench.base.settings import merge, nest
from fedbench.config import TrialConfig
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.models import register_model

NAME = "tiny_testing"
CLASSES = 3
OWNERS = 20
SETTINGS: Mapping[str, object] = {
    "data.name": NAME,
    "clients.count": 10,
    "clients.participation": 0.7,
    "proxy.size": 12,
    "rounds": 3,
}


def load(data_dir: Path | None) -> Arrays:
    """Noise, uint8 [N, 6, 6, 1]: the larger the label, the brighter."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, 240)
    brightness = (30 * labels).astype(np.uint8)[:, None, None, None]
    images = rng.integers(0, 160, (240, 6, 6, 1), dtype=np.uint8) + brightness
    owners = np.arange(240, dtype=np.int64) % OWNERS
    return Arrays(images[:160], labels[:160], images[160:], labels[160:], owners[:160], owners[160:])


register_dataset(
    Dataset(
        name=NAME,
        shape=(1, 6, 6),
        num_classes=CLASSES,
        train_size=160,
        test_size=80,
        load=load,
        owners=OWNERS,
        defaults={"model": NAME, "clients.batch_size": 8, "clients.epochs": 1},
    ),
    version="1",
)


@register_model(NAME, version="1")
def batch_norm_mlp(shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """One hidden layer with batch norm, so that every rule for its statistics has something to do."""
    channels, height, width = shape
    first = nn.Linear(channels * height * width, 7, bias=False)
    return nn.Sequential(nn.Flatten(), first, nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, num_classes))


def tiny(settings: Mapping[str, Any] | None = None) -> TrialConfig:
    """The config of a tiny run; `settings`, with dotted keys, go before its own."""
    return TrialConfig(**merge(nest(SETTINGS), nest(settings or {})))
