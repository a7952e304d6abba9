"""Splitting labelled samples over clients: pure functions of labels, settings and a generator.

Each returns one array of sample indices a client. Unless said otherwise every sample is used exactly once.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import UserError

Indices = NDArray[np.int64]
REDRAWS = 100


def draw_until_all_have_data(draw: Callable[[], list[Indices]], what: str) -> tuple[list[Indices], int]:
    """Repeat `draw` until no client is left without data, at most REDRAWS times.

    Returns the shards and the number of redraws it took.
    """
    for redraws in range(REDRAWS):
        shards = draw()
        if all(len(shard) for shard in shards):
            return shards, redraws
    raise UserError(
        f"{what}: {REDRAWS} draws all left some client without data; "
        "use fewer clients (clients.count), more data (data.train_size) or a larger data.alpha"
    )


def iid(n: int, samples: Indices, rng: np.random.Generator) -> list[Indices]:
    """Shuffle `samples` and deal them out in shards of (nearly) one size."""
    return np.array_split(rng.permutation(samples), n)


def dirichlet(
    n: int, alpha: float, samples: Indices, labels: NDArray[np.int64], rng: np.random.Generator
) -> list[Indices]:
    """For every class, split its samples over n clients by proportions drawn from Dir_n(alpha)."""
    shards: list[list[Indices]] = [[] for _ in range(n)]
    for own in _by_class(samples, labels, rng):
        for shard, part in zip(shards, _cut(own, rng.dirichlet(np.full(n, alpha))), strict=True):
            shard.append(part)
    return [np.concatenate([samples[:0], *shard]) for shard in shards]


def hybrid(
    n: int, alpha: float, alpha2: float, samples: Indices, labels: NDArray[np.int64], rng: np.random.Generator
) -> list[Indices]:
    """The first n // 2 clients of an n-client Dir(alpha) partition; the others share what is left by Dir(alpha2)."""
    drawn = dirichlet(n, alpha, samples, labels, rng)
    kept, left = drawn[: n // 2], np.concatenate(drawn[n // 2 :])
    return kept + dirichlet(n - n // 2, alpha2, left, labels, rng)


def three_node(
    alpha: float, alpha2: float, samples: Indices, labels: NDArray[np.int64], rng: np.random.Generator
) -> list[Indices]:
    """Three clients of one size: client 0 takes the first part of Dir_3(alpha), Dir_2(alpha2) splits the rest.

    Every client is then cut to the smallest one's size, in proportion to its classes.
    """
    shards: list[list[Indices]] = [[], [], []]
    for own in _by_class(samples, labels, rng):
        first = rng.dirichlet(np.full(3, alpha))[0]
        second, third = (1 - first) * rng.dirichlet(np.full(2, alpha2))
        for shard, part in zip(shards, _cut(own, np.array([first, second, third])), strict=True):
            shard.append(part)
    size = min(sum(map(len, shard)) for shard in shards)
    return [
        np.concatenate([part[:k] for part, k in zip(shard, apportion([len(p) for p in shard], size), strict=True)])
        for shard in shards
    ]


def _by_class(samples: Indices, labels: NDArray[np.int64], rng: np.random.Generator) -> list[Indices]:
    """The samples of each class that occurs, shuffled."""
    own = labels[samples]
    return [rng.permutation(samples[own == label]) for label in np.unique(own)]


def _cut(own: Indices, proportions: NDArray[np.float64]) -> list[Indices]:
    """Cut one class's samples into consecutive parts of the given proportions (they sum to 1)."""
    ends = np.floor(np.cumsum(proportions)[:-1] * len(own) + 1e-9).astype(np.int64)
    return np.split(own, ends)


def apportion(weights: Sequence[float], total: int) -> list[int]:
    """Whole numbers in proportion to `weights` that sum to `total`, by largest remainders (the first wins a tie)."""
    shares = np.asarray(weights, np.float64) * (total / max(sum(weights), 1e-300))
    result = np.floor(shares + 1e-9).astype(np.int64)
    order = np.argsort(result - shares, kind="stable")
    result[order[: total - int(result.sum())]] += 1
    return [int(k) for k in result]


def longtail_shares(rho: float, num_classes: int) -> list[float]:
    """rho^(-c / (C - 1)), c = 0 ... C - 1: each class's size relative to the first."""
    return [float(rho ** (-c / max(num_classes - 1, 1))) for c in range(num_classes)]


def longtail_counts(head: float, rho: float, num_classes: int) -> list[int]:
    """n_c = floor(head * rho^(-c / (C - 1)) + 1e-9)."""
    return [math.floor(head * share + 1e-9) for share in longtail_shares(rho, num_classes)]


def class_order(labels: NDArray[np.int64], rng: np.random.Generator, *, balanced: bool) -> Indices:
    """All samples, shuffled within their class, ordered so that every prefix has the wanted mix of classes.

    `balanced`: as many of each class as can be; else: each class in proportion to its size. Prefixes nest.
    """
    order = rng.permutation(len(labels))
    place = np.empty(len(labels), np.float64)
    for label in np.unique(labels):
        own = order[labels[order] == label]
        rank = np.arange(len(own))
        place[own] = rank if balanced else (rank + 0.5) / len(own)
    return np.lexsort((labels, place)).astype(np.int64)
