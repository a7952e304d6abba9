"""Filling in what a config leaves out: the defaults of the data set, the partition and the method."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fedbench.base.errors import ConfigError
from fedbench.base.settings import Settings, merge, nest
from fedbench.data.base import DATASETS, PAPER_DEFAULTS
from fedbench.data.partitions import PARTITIONS
from fedbench.methods import METHODS, Method

T = TypeVar("T")


def resolve(settings: Settings) -> Settings:
    """Nested settings with the defaults that depend on other settings filled in; wrong types are left for later."""
    data = {"name": "mnist5k", "partition": "dirichlet", **_group(settings, "data")}
    dataset = named("data.name", data["name"], DATASETS.get)
    partition = named("data.partition", data["partition"], PARTITIONS.get)
    method = {"name": "fedavg", **_group(settings, "method")}
    rule = named("method.name", method["name"], METHODS.get)
    general: Settings = {"proxy.size": 10 * dataset.num_classes, "bn": rule.bn, "indicators": {}}
    defaults = nest({**PAPER_DEFAULTS, **general, **dataset.defaults, **partition.defaults})
    open_settings = _open(rule, defaults.pop("method", {}))
    return merge(defaults, {**settings, "data": data, "method": {**open_settings, **method}})


def _open(rule: type[Method[Any]], defaults: Mapping[str, object]) -> Settings:
    """Those of the data set's defaults that a method has no default of its own for."""
    fields = rule.Settings.model_fields
    return {key: value for key, value in defaults.items() if key in fields and fields[key].is_required()}


def _group(settings: Settings, name: str) -> Settings:
    group = settings.get(name, {})
    if not isinstance(group, Mapping):
        raise ConfigError(f"{name} = {group!r}: must be settings, such as {name}.name=...")
    return dict(group)


def named(key: str, name: Any, get: Callable[[Any], T]) -> T:
    """What a setting names, or an error that says which setting it was."""
    try:
        return get(name)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None
