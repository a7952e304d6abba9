"""Filling in what a config leaves out: the defaults of the data set, the partition and the method."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fedbench.base.errors import ConfigError
from fedbench.base.settings import Settings, merge, nest
from fedbench.data.base import DATASETS, PAPER_DEFAULTS
from fedbench.data.partitions import PARTITIONS
from fedbench.methods import METHODS, Method

T = TypeVar("T")

WRAPPED = "fedavg"  # the method that a wrapper wraps, unless it is told


def resolve(settings: Settings) -> Settings:
    """Nested settings with the defaults that depend on other settings filled in; wrong types are left for later.

    The data set's defaults go before the paper's, the partition's before both, and what is given before all.
    """
    dataset = named("data.name", _group(settings, "data").get("name", "mnist5k"), DATASETS.get)
    general: Settings = {"data": {"name": dataset.name, "partition": "dirichlet"}, "method": {"name": "fedavg"}}
    general |= {"proxy": {"size": 10 * dataset.num_classes}, "indicators": {}}
    defaults = merge(merge(general, nest(PAPER_DEFAULTS)), nest(dataset.defaults))
    data, method = (merge(defaults[group], _group(settings, group)) for group in ("data", "method"))
    partition = named("data.partition", data["partition"], PARTITIONS.get)
    rule = named("method.name", method["name"], METHODS.get)
    defaults = merge({"bn": rule.default_bn(method), **defaults}, nest(partition.defaults))
    given = _complete("method", {"name": method["name"], **_group(settings, "method")}, defaults["method"])
    return {**merge(defaults, settings), "data": data, "method": given}


def without_obsolete(settings: Settings) -> Settings:
    """Settings that an earlier version wrote, without what has no meaning any more."""
    kept = {key: dict(value) if isinstance(value, Mapping) else value for key, value in settings.items()}
    run, data = kept.get("run"), kept.get("data")
    if isinstance(run, dict) and run.get("engine") == "sequential":  # 0.1 had no other
        del run["engine"]
    for key in ("alpha", "alpha2"):  # and wrote null for what a partition does not use
        if isinstance(data, dict) and data.get(key, 0) is None:
            del data[key]
    return kept


def _complete(key: str, given: Settings, defaults: Mapping[str, object]) -> Settings:
    """A method's settings with the data set's defaults for what has none; those of the method that it wraps, too."""
    rule = named(f"{key}.name", given.get("name", WRAPPED), METHODS.get)
    given = {**_open(rule, defaults), **given}
    if isinstance(inner := given.get("inner"), Mapping) and "inner" in rule.Settings.model_fields:
        given["inner"] = _complete(f"{key}.inner", dict(inner), defaults)
    return given


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
