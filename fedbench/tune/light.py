"""Tune, without what no trial needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.air._internal import usage
from ray.train._internal.storage import StorageContext
from ray.tune.execution.class_cache import _ActorClassCache
from ray.tune.experiment.trial import _TrialInfo

from fedbench.tune.actor import nothing
from fedbench.tune.lean import OwnNode


def lighten_tune() -> None:
    """Let Tune leave out what no trial needs.

    It counts callbacks for statistics that are not sent, and imports MLflow and W&B for that wherever they are
    installed. It sends workers variables of this process, and one that is for another library: on a node that was
    started here they have all but the latter, and for its sake Ray would start other workers than those that are there.
    And workers get the class that a trainable names as `on_workers`, if it does, in its place.
    """
    cache: Any = _ActorClassCache
    cached = cache.get

    def get(self: Any, trainable: type) -> Any:
        works = getattr(trainable, "on_workers", trainable)
        if isinstance(ray._private.worker._global_node, OwnNode):
            self._cache.setdefault(works, ray.remote(works))
        return cached(self, works)

    cache.get = get
    usage.tag_callbacks = lambda callbacks: False


@contextmanager
def light_baggage() -> Iterator[None]:
    """Send workers nothing of Tune's own for the time of a block: they would import Tune to unpack it."""
    for kind in (StorageContext, _TrialInfo):
        ray.util.register_serializer(kind, serializer=nothing, deserializer=nothing)
    try:
        yield
    finally:
        for kind in (StorageContext, _TrialInfo):
            ray.util.deregister_serializer(kind)
