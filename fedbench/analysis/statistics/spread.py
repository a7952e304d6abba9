"""Means over seeds and what can be said of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """Mean, standard deviation (n - 1), number, and the 95 % Student-t interval of the mean; None where undefined."""

    mean: float | None
    std: float | None
    n: int
    low: float | None
    high: float | None


def spread(values: Sequence[float], confidence: float = 0.95) -> Spread:
    """Describe a sample of one number a seed."""
    n = len(values)
    if n == 0:
        return Spread(None, None, 0, None, None)
    mean = float(np.mean(values))
    if n == 1:
        return Spread(mean, None, 1, None, None)
    from scipy.special import stdtrit  # late; scipy.stats has it too, but takes a second to import

    std = float(np.std(values, ddof=1))
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * std / n**0.5
    return Spread(mean, std, n, mean - half, mean + half)


def paired(values: dict[int, float], baseline: dict[int, float]) -> Spread:
    """The spread of differences to the baseline, seed by seed, over the seeds that both have."""
    return spread([values[seed] - baseline[seed] for seed in sorted(values) if seed in baseline])
