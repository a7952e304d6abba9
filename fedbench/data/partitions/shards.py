"""A few classes a client, as in the partition by shards of McMahan et al. (2017)."""

from typing import Literal

import numpy as np

from fedbench.base.errors import UserError
from fedbench.base.fields import Count
from fedbench.data.classes import Indices, Labels, by_class
from fedbench.data.partitions.base import DataSettings, Partition, register_partition


class ShardsSettings(DataSettings):
    """How many classes a client has."""

    partition: Literal["shards"] = "shards"
    classes: Count = 2
    """number of classes that every client has"""


def deal_classes(clients: int, classes: int, each: int, rng: np.random.Generator) -> list[list[int]]:
    """The holders of each class: every client gets `each` classes, and the numbers of holders differ by at most one.

    The clients choose in the order of a shuffle, always the classes that the fewest have; ties are drawn.
    """
    holders: list[list[int]] = [[] for _ in range(classes)]
    for client in rng.permutation(clients):
        held = np.array([len(each_class) for each_class in holders])
        for label in np.lexsort((rng.random(classes), held))[:each]:
            holders[label].append(int(client))
    return holders


@register_partition()
class Shards(Partition[ShardsSettings]):
    """Every client has the same number of classes; each class is split evenly over the clients that have it."""

    Settings = ShardsSettings

    def draw(
        self, settings: ShardsSettings, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """Deal classes, then cut every class into equal parts."""
        members = by_class(samples, labels, rng)
        classes, each = len(members), settings.classes
        if each > classes or each * clients < classes:
            valid = f"between {-(-classes // clients)} and {classes}"
            raise UserError(f"data.classes = {each}: {clients} clients share {classes} classes; must be {valid}")
        parts: list[list[Indices]] = [[] for _ in range(clients)]
        for own, holders in zip(members, deal_classes(clients, classes, each, rng), strict=True):
            for client, part in zip(holders, np.array_split(own, len(holders)), strict=True):
                parts[client].append(part)
        return [np.concatenate(own) for own in parts]
