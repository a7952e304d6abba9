"""Settings as users write them: YAML files and key=value, nested or with dotted keys."""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import ReusedAnchorWarning

from fedbench.base.errors import ConfigError, UserError
from fedbench.base.packs import read

Settings = dict[str, Any]
PLAIN = {"None": "null", "True": "true", "False": "false"}  # as YAML has them

# What a YAML text may have at most: ruamel.yaml reads 50,000 characters a second, and aliases can make a page endless.
LONGEST = 2**18  # characters; the longest study of ours has 7,000
MOST_VALUES = 100_000
MOST_BITS = 10_000  # of a whole number; Python does not even print one of 4,300 digits
DEEPEST = 20  # parts of a dotted key


class YamlError(ValueError):
    """A text that is not YAML, or too much of it; `line` is where that shows, if anywhere."""

    def __init__(self, problem: object, line: int | None = None) -> None:
        super().__init__(str(problem))
        self.line = line


def parse_yaml(text: str) -> Any:
    """Plain data from a YAML text (YAML 1.2: 5e-4 is a number, `no` is a word)."""
    if len(text) > LONGEST:
        raise YamlError(f"more than {LONGEST} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # YAML allows it
            content = YAML(typ="safe", pure=True).load(text)
    except Exception as error:  # impossible dates and numbers, endless nesting: ruamel.yaml raises nearly anything
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error) or type(error).__name__
        raise YamlError(f"not valid YAML ({problem})", mark.line + 1 if mark else None) from error
    if _values(content, {}) > MOST_VALUES:
        raise YamlError(f"its aliases stand for more than {MOST_VALUES} values")
    return content


def parse_settings(text: str) -> Any:
    """Parse the YAML text of a run's settings, the same as `parse_yaml` does, but faster for many similar texts.

    The entry of each key at the top level is parsed on its own, and only once, because the runs of a study differ in
    few of them. A text that cannot be taken apart like this is parsed as a whole.
    """
    parts = [part for part in re.split(r"(?m)^(?=\w)", text) if part]
    try:
        entries = [_parse_part(part) for part in parts] if len(text) <= LONGEST else []
    except YamlError:
        entries = []
    if entries and all(isinstance(entry, dict) and len(entry) == 1 for entry in entries):
        whole = {key: value for entry in entries for key, value in entry.items()}
        if len(whole) == len(entries):
            return deepcopy(whole)
    return parse_yaml(text)


@lru_cache(maxsize=1024)
def _parse_part(text: str) -> Any:
    return parse_yaml(text)


def _values(content: Any, known: dict[int, int]) -> int:
    """Return the number of values, where what an alias stands for counts every time.

    known: the counts by id; 0 for values that are being counted.
    """
    if isinstance(content, int) and content.bit_length() > MOST_BITS:
        raise YamlError("a number in it has thousands of digits")
    if not isinstance(content, dict | list):
        return 1
    if known.get(id(content)) == 0:
        raise YamlError("an alias refers to itself")
    if id(content) not in known:
        known[id(content)] = 0
        inner = [*content, *content.values()] if isinstance(content, dict) else content
        known[id(content)] = 1 + sum(_values(item, known) for item in inner)
    return known[id(content)]


def plain(value: Any) -> Any:
    """A value from Python with numbers and arrays of numpy, and the like, as Python's own; all else as it is."""
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if callable(getattr(value, "tolist", None)) else value


def nest(settings: Mapping[str, Any], where: str = "settings") -> Settings:
    """Expand dotted keys: {"data.alpha": 1, "data": {"name": "x"}} -> {"data": {"alpha": 1, "name": "x"}}.

    A key that is given twice is an error.
    """
    nested: Settings = {}
    for key, value in settings.items():
        if not isinstance(key, str) or not all(key.split(".")) or key.count(".") >= DEEPEST:
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
            parsed = parse_yaml(value)
        except YamlError as error:
            raise ConfigError(f"--set {text[:200]}: the value is not valid YAML ({error})") from error
        settings = merge(settings, nest({key.strip(): parsed}, f"--set {text}"))
    return settings


def load_yaml(path: Path) -> Settings:
    """A YAML file as nested settings."""
    return nest(load_raw_yaml(path), str(path))


def load_raw_yaml(path: Path) -> Settings:
    """A YAML file of keys and values, as written."""
    try:
        content = parse_yaml(read(path, LONGEST, links=True).decode())
    except YamlError as error:
        raise UserError(f"{path}{f', line {error.line}' if error.line else ''}: {error}") from error
    except (OSError, ValueError) as error:  # of text that is none, and of a pack that is none
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected settings as key: value, found {type(content).__name__}")
    return content


def dump_yaml(settings: Mapping[str, Any]) -> str:
    """Nested settings as YAML text."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(dict(settings), stream)
    return stream.getvalue()
