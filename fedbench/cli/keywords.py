"""A command's options as keywords of a Python function: the same parser reads them."""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from fedbench.base.errors import UserError, unknown
from fedbench.base.settings import plain
from fedbench.specs.names import text_labels

OTHER_NAMES = {"changes": "set"}  # what `fedbench.load` calls it
LEFT_OUT = ("help", "list", "json")  # they print, and do nothing


def parsed(parser: argparse.ArgumentParser, name: str, keywords: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The options that keywords stand for, and the command line that would say the same."""
    known = {action.dest: action for action in parser._actions if action.option_strings and action.dest not in LEFT_OUT}
    arguments = [name]
    for keyword, value in keywords.items():
        option = OTHER_NAMES.get(keyword, keyword)
        if option not in known:
            raise UserError(unknown("option", keyword, [*known, *OTHER_NAMES]))
        if value is not None:
            arguments += _words(known[option], keyword, value)
    parser.error = _refuse  # type: ignore[method-assign]
    return parser.parse_args(arguments), arguments


def _refuse(message: str) -> NoReturn:
    raise UserError(message)


def _words(action: argparse.Action, keyword: str, value: Any) -> list[str]:
    """An option as words of a command line; a mapping is the option again and again."""
    flag = action.option_strings[0]
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        if not isinstance(value, bool):
            raise UserError(f"{keyword} = {value!r}: must be True or False")
        return [action.option_strings[0 if value else -1]] if value or len(action.option_strings) > 1 else []
    if action.dest in _MAPPINGS:
        if not isinstance(value, Mapping):
            raise UserError(f"{keyword} = {value!r}: must be a mapping, such as {{'data.alpha': 0.1}}")
        return [f"{flag}={text}" for key, item in value.items() for text in _MAPPINGS[action.dest](key, item)]
    values = list(value) if _several(value) else [value]
    if action.dest == "seeds":
        return [f"{flag}={','.join(map(str, values))}"]
    if len(values) > 1 and not isinstance(action.default, list):
        raise UserError(f"{keyword} = {value!r}: must be one value")
    return [f"{flag}={text}" for text in values]


def _several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | Path | Mapping)


def _settings(key: str, value: Any) -> list[str]:
    try:
        return [f"{key}={json.dumps(plain(value))}"]
    except (TypeError, ValueError):
        raise UserError(f"set: {key} = {value!r}: must be made of numbers, words, lists and mappings") from None


def _points(key: str, value: Any) -> list[str]:
    return [f"{key}={text}" for text in text_labels(value)]


_MAPPINGS: dict[str, Callable[[str, Any], list[str]]] = {"set": _settings, "only": _points}
