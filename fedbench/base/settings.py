"""Settings as users write them: YAML files and key=value, nested or with dotted keys."""

import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from fedbench.base.errors import ConfigError, UserError
from fedbench.base.packs import read

Settings = dict[str, Any]
PLAIN = {"None": "null", "True": "true", "False": "false"}  # as YAML has them

# What a YAML text can make ruamel.yaml raise: impossible dates and numbers, endless nesting, aliases to themselves.
BAD_YAML = (YAMLError, ValueError, KeyError, RecursionError)


def nest(settings: Mapping[str, Any], where: str = "settings") -> Settings:
    """Expand dotted keys: {"data.alpha": 1, "data": {"name": "x"}} -> {"data": {"alpha": 1, "name": "x"}}.

    A key that is given twice is an error.
    """
    nested: Settings = {}
    for key, value in settings.items():
        if not isinstance(key, str) or not all(key.split(".")):
            raise ConfigError(f"{where}: {key!r} is not a key; keys look like data.alpha")
        branch = nest(value, where) if isinstance(value, Mapping) else value
        for part in reversed(key.split(".")):
            branch = {part: branch}
        _add(nested, branch, where, "")
    return nested


def _add(tree: Settings, branch: Settings, where: str, path: str) -> None:
    for key, value in branch.items():
        if key not in tree:
            tree[key] = value
        elif isinstance(tree[key], dict) and isinstance(value, dict):
            _add(tree[key], value, where, f"{path}{key}.")
        else:
            raise ConfigError(f"{where}: {path}{key} is given twice")


def leaves(settings: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The dotted keys of nested settings."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def in_words(settings: Mapping[str, Any], path: str = "") -> list[str]:
    """Nested settings as users write them: rounds=99, data.alpha=0.1."""
    words: list[str] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            words += in_words(value, f"{path}{key}.")
        else:
            words.append(f"{path}{key}={PLAIN.get(str(value), value)}")
    return words


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Settings:
    """Nested settings where `over` wins, key by key."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(merged.get(key), Mapping) and isinstance(value, Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def parse_assignments(assignments: Iterable[str]) -> Settings:
    """Nested settings from `key=value` texts; values are YAML scalars or lists; a later one wins."""
    settings: Settings = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text}: expected key=value, such as data.alpha=0.1")
        try:
            parsed = YAML(typ="safe", pure=True).load(value)
            settings = merge(settings, nest({key.strip(): parsed}, f"--set {text}"))
        except BAD_YAML as error:
            raise ConfigError(f"--set {text[:200]}: the value is not valid YAML") from error
    return settings


def load_yaml(path: Path) -> Settings:
    """A YAML file as nested settings."""
    return nest(load_raw_yaml(path), str(path))


def load_raw_yaml(path: Path) -> Settings:
    """A YAML file of keys and values, as written (YAML 1.2: 5e-4 is a number, `no` is a word)."""
    try:
        content = YAML(typ="safe", pure=True).load(read(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except BAD_YAML as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML ({getattr(error, 'problem', None) or error})") from error
    try:
        _walk(content)
    except RecursionError as error:
        raise UserError(f"{path}: an alias refers to itself") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected settings as key: value, found {type(content).__name__}")
    return content


def _walk(content: Any) -> None:
    """Go through all of a file: a RecursionError if there is no end to it."""
    for item in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        _walk(item)


def dump_yaml(settings: Mapping[str, Any]) -> str:
    """Nested settings as YAML text."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(dict(settings), stream)
    return stream.getvalue()
