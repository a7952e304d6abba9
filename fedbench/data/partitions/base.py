"""The base class of partitions, which split the training samples over the clients, and of their settings."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedbench.base.errors import UserError
from fedbench.base.fields import Count, Positive, Share, Strict, UnhashedDefault, Whole, fixed_name
from fedbench.base.registry import Registry, with_brackets
from fedbench.data.classes import Indices, Labels

REDRAWS = 100

Alpha = Positive
Columns = Mapping[str, NDArray[Any]]
Rho = Annotated[float, Field(ge=1, le=1e30)]


class DataSettings(Strict):
    """The data set and its partition. A partition's subclass fixes `partition` to its name and adds its settings."""

    name: str = "mnist5k"
    """the data set"""
    path: Annotated[str | None, UnhashedDefault()] = None
    """with `data.name` file: a file or folder of arrays of your own"""
    content: Annotated[str | None, UnhashedDefault()] = None
    """what is in that file; fedbench finds and writes it"""
    partition: str
    """how the training set is split over clients"""
    longtail: Rho = 1.0
    """rho of a long-tailed training set, class counts n_max * rho^(-c/(C-1)); 1 for none"""
    train_size: Count | None = None
    """number of training images to use, with the classes in proportion; null for all"""
    test_size: Count | None = None
    """number of test images to use, with the classes in proportion; null for all"""
    validation: Share = 0.0
    """share of the training data that is kept out as a validation set, on which the model is evaluated as well"""
    draw: Annotated[Whole, UnhashedDefault()] = 0
    """number of the draw of the partition and of the clients' holdouts; all other random draws stay the same"""

    def unused(self) -> tuple[str, ...]:
        """Return the settings that have no effect beside the others, and so are left out of the hash."""
        return ()


S = TypeVar("S", bound=DataSettings)


class Partition(ABC, Generic[S]):
    """A rule that splits samples over clients. `defaults` maps config keys to default values for its configs.

    If `by_owner`, all samples of an owner belong to the same client, so the data set must have owners.
    """

    Settings: ClassVar[type[DataSettings]]
    defaults: ClassVar[Mapping[str, object]] = {}
    group_names: ClassVar[tuple[str, ...]] = ()
    by_owner: ClassVar[bool] = False

    def check(self, clients: int) -> str | None:
        """A message ("must be ...") if the partition is not defined for this number of clients, else None."""
        return None

    def groups(self, clients: int) -> dict[str, range]:
        """Groups of clients that indicators and plots show separately, by the names in `group_names`."""
        return {}

    @abstractmethod
    def draw(
        self, settings: S, clients: int, samples: Indices, labels: Labels, rng: np.random.Generator
    ) -> list[Indices]:
        """Draw an array of sample indices for each client. Most partitions use every sample exactly once.

        A partition that depends on more than the labels takes a further argument, `columns`: the properties of all
        samples of the data set by name (`Arrays.columns`).
        """

    def split(
        self,
        settings: S,
        clients: int,
        samples: Indices,
        labels: Labels,
        rng: np.random.Generator,
        columns: Columns | None = None,
    ) -> tuple[list[Indices], int]:
        """Draw until every client has data. Return the shards and the number of redraws."""
        draw: Callable[..., list[Indices]] = self.draw
        if "columns" in signature(draw).parameters:
            draw = partial(draw, columns=columns)
        for redraws in range(REDRAWS):
            shards = draw(settings, clients, samples, labels, rng)
            if problem := _not_shards(shards, clients, samples):
                raise UserError(f"partition '{settings.partition}': draw must give {problem}")
            if all(len(shard) for shard in shards):
                return shards, redraws
        raise UserError(
            f"data.partition={settings.partition} over {clients} clients: {REDRAWS} draws all left some client without "
            "data; use fewer clients (clients.count), more data (data.train_size) or a larger data.alpha"
        )


def _not_shards(shards: object, clients: int, samples: Indices) -> str | None:
    """A message with the expected and the actual type of what a partition drew, None if it is valid."""
    if not isinstance(shards, list | tuple) or len(shards) != clients:
        found = f"{len(shards)}" if isinstance(shards, list | tuple) else f"a {type(shards).__name__}"
        return f"a list of {clients} arrays, one for each client, gave {found}"
    for shard in shards:
        if not isinstance(shard, np.ndarray) or shard.ndim != 1 or not np.issubdtype(shard.dtype, np.integer):
            kind = f"{shard.dtype} {shard.shape}" if isinstance(shard, np.ndarray) else f"a {type(shard).__name__}"
            return f"each client a one-dimensional array of whole numbers, gave {kind}"
        if not np.isin(shard, samples).all():
            return "each client some of the given samples, gave others"
    return None


PARTITIONS: Registry[Partition[Any]] = Registry("partition", home="fedbench.data.partitions")

P = TypeVar("P", bound=type[Partition[Any]])


def register_partition(version: str | None = None) -> Callable[[P], P]:
    """Register the decorated Partition subclass under the name that its Settings fix.

    `version` is for plugins: it replaces the fingerprint of their source in the hash.
    """
    with_brackets("register_partition()", version)

    def register(partition: P) -> P:
        PARTITIONS.add(fixed_name(partition.Settings, "partition"), partition(), version)
        return partition

    return register
