"""Pure functions that count, order and split samples by class."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Labels = NDArray[np.int64]


def by_class(samples: Indices, labels: Labels, rng: np.random.Generator) -> list[Indices]:
    """The samples of each class that occurs, shuffled."""
    classes = labels[samples]
    return [rng.permutation(samples[classes == label]) for label in np.unique(classes)]


def cut(samples: Indices, proportions: NDArray[np.float64]) -> list[Indices]:
    """Cut samples into consecutive parts of the given proportions, which sum to 1."""
    ends = np.floor(np.cumsum(proportions)[:-1] * len(samples) + 1e-9).astype(np.int64)
    return np.split(samples, ends)


def apportion(weights: Sequence[float], total: int) -> list[int]:
    """Whole numbers in proportion to `weights` that sum to `total`, by the largest-remainder method.

    Of equal remainders, the first is rounded up.
    """
    shares = np.asarray(weights, np.float64) * (total / max(sum(weights), 1e-300))
    result = np.floor(shares + 1e-9).astype(np.int64)
    order = np.argsort(result - shares, kind="stable")
    result[order[: total - int(result.sum())]] += 1
    return [int(k) for k in result]


def longtail_shares(rho: float, num_classes: int) -> list[float]:
    """The size of each class c = 0 ... C - 1 relative to the first: rho^(-c / (C - 1))."""
    return [float(rho ** (-c / max(num_classes - 1, 1))) for c in range(num_classes)]


def longtail_counts(head: float, rho: float, num_classes: int) -> list[int]:
    """The size of each class of a long tail whose first class has `head` samples: floor(head * rho^(-c / (C - 1)))."""
    return [math.floor(head * share + 1e-9) for share in longtail_shares(rho, num_classes)]


def class_order(labels: Labels, rng: np.random.Generator, *, balanced: bool) -> Indices:
    """A random order of all samples in which every prefix has nearly the same mix of classes.

    If `balanced`, a prefix has the same number of samples of every class as far as they suffice. Otherwise, it has
    each class in proportion to the size of the class.
    """
    order = rng.permutation(len(labels))
    rank_in_class = np.empty(len(labels), np.float64)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        rank = np.arange(len(members))
        rank_in_class[members] = rank if balanced else (rank + 0.5) / len(members)
    return np.lexsort((labels, rank_in_class)).astype(np.int64)
