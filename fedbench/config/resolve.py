"""Fills in settings that a config leaves out, by the defaults of its data set, partition and method."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fedbench.base.errors import ConfigError
from fedbench.base.files import located
from fedbench.base.settings import Settings, merge, nest
from fedbench.data.base import DATASETS, PAPER_DEFAULTS, Dataset
from fedbench.data.own import FILE, KEY, KINDS, dataset_of, describe
from fedbench.data.partitions import PARTITIONS
from fedbench.methods import METHODS, Method
from fedbench.models.start import state_digest

T = TypeVar("T")

WRAPPED = "fedavg"  # the method that a wrapper wraps by default


def resolve(settings: Settings) -> Settings:
    """Fill in the defaults that depend on other settings. Types and ranges are validated afterwards.

    Given settings take precedence over the partition's defaults, these over the data set's, and these over the paper's.
    """
    settings, dataset = _with_content(_with_initial(settings))
    general: Settings = {"data": {"name": dataset.name, "partition": "dirichlet"}, "method": {"name": "fedavg"}}
    general |= {"proxy": {"size": 10 * dataset.num_classes}, "indicators": {}}
    defaults = merge(merge(general, nest(PAPER_DEFAULTS)), nest(dataset.defaults))
    data, method = (merge(defaults[group], _group(settings, group)) for group in ("data", "method"))
    partition = named("data.partition", data["partition"], PARTITIONS.get)
    rule = named("method.name", method["name"], METHODS.get)
    defaults = merge({"bn": rule.default_bn(method), **defaults}, nest(partition.defaults))
    given = _complete("method", {"name": method["name"], **_group(settings, "method")}, defaults["method"])
    return {**merge(defaults, settings), "data": data, "method": given}


def _with_content(settings: Settings) -> tuple[Settings, Dataset]:
    """The data set, and the settings with the place and the content of its file where it is one."""
    data = _group(settings, "data")
    name = data.get("name", "mnist5k")
    if name != FILE:
        return settings, named("data.name", name, DATASETS.get)
    if data.get("content") is None:
        path = located(KEY, data.get("path"), KINDS)
        data |= {"path": str(path), "content": describe(path)}
    return {**settings, "data": data}, dataset_of(FILE, data.get("path"), data["content"])


def _with_initial(settings: Settings) -> Settings:
    """The settings with the place and the digest of the initial weights' file, if there is one: `init: path.pt`."""
    given = settings.get("init")
    init = {"path": given} if isinstance(given, str) else _group(settings, "init")
    if init.get("path") is not None and init.get("content") is None:
        init["path"], init["content"] = state_digest(init["path"])
    return {**settings, "init": init} if init else settings


def without_obsolete(settings: Settings) -> Settings:
    """Settings that version 0.1 stored, without the values that mean nothing any more."""
    current = {key: dict(value) if isinstance(value, Mapping) else value for key, value in settings.items()}
    run, data = current.get("run"), current.get("data")
    if isinstance(run, dict) and run.get("engine") == "sequential":  # the only engine of version 0.1
        del run["engine"]
    for key in ("alpha", "alpha2"):  # version 0.1 wrote null if the partition did not have the setting
        if isinstance(data, dict) and data.get(key, 0) is None:
            del data[key]
    return current


def _complete(key: str, given: Settings, defaults: Mapping[str, object]) -> Settings:
    """A method's settings with the data set's defaults for its required settings; likewise for a wrapped method."""
    rule = named(f"{key}.name", given.get("name", WRAPPED), METHODS.get)
    given = {**_required(rule, defaults), **given}
    if isinstance(inner := given.get("inner"), Mapping) and "inner" in rule.Settings.model_fields:
        given["inner"] = _complete(f"{key}.inner", dict(inner), defaults)
    return given


def _required(rule: type[Method[Any]], defaults: Mapping[str, object]) -> Settings:
    """The data set's defaults for those settings of a method that have no default of their own."""
    fields = rule.Settings.model_fields
    return {key: value for key, value in defaults.items() if key in fields and fields[key].is_required()}


def _group(settings: Settings, name: str) -> Settings:
    """The settings of one group, such as `data`; an error if they are not a mapping."""
    group = settings.get(name, {})
    if not isinstance(group, Mapping):
        raise ConfigError(f"{name} = {group!r}: must be settings, such as {name}.name=...")
    return dict(group)


def named(key: str, name: Any, get: Callable[[Any], T]) -> T:
    """Look up the value that a setting names. An error gets the setting's key in front."""
    try:
        return get(name)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None
