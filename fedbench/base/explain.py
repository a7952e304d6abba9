"""Turning pydantic's validation errors into one line that a user can act on."""

import types
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

_BOUNDS = (
    (annotated_types.Gt, "gt", "above"),
    (annotated_types.Ge, "ge", "at least"),
    (annotated_types.Lt, "lt", "below"),
    (annotated_types.Le, "le", "at most"),
)
_TYPES = {float: "a number", int: "a whole number", bool: "true or false", str: "a word"}


def explain(error: ValidationError, model: type[BaseModel], prefix: str = "", of: str = "") -> str:
    """The first error as `key = value: must be ...`, with the nearest spelling where a name is unknown.

    `prefix` is where the model hangs in a larger config; `of` says in words whose keys they are.
    """
    typos = ("extra_forbidden", "invalid_key")  # they explain a missing key
    first = min(error.errors(), key=lambda item: item["type"] not in typos)
    path = [str(part) for part in first["loc"]]
    key = prefix + ".".join(path)
    owner = _descend(model, path[:-1])
    if first["type"] == "extra_forbidden" and owner:
        return _unknown_key(key, of, [prefix + known for known in keys(model)], owner)
    if first["type"] == "missing":
        return f"{key} is missing"
    if first["type"] == "invalid_key":
        return f"{key} is not a key; must be a word"
    field = owner.model_fields.get(path[-1]) if owner else None
    allowed = _allowed(field, first["input"]) if field else first["msg"].removeprefix("Input should be ")
    return f"{key} = {first['input']!r}: must be {allowed}"


def _unknown_key(key: str, of: str, known: list[str], owner: type[BaseModel]) -> str:
    stem, _, leaf = key.rpartition(".")
    same_leaf = [name for name in known if name.rpartition(".")[2] == leaf]
    near = same_leaf or [f"{stem}.{name}".lstrip(".") for name in get_close_matches(leaf, owner.model_fields, n=1)]
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"unknown key '{key}'{of}; {hint}Known: {', '.join(owner.model_fields)}"


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All dotted keys of a config type."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name


def _descend(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    for part in path:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return None
        model = inner
    return model


def _allowed(field: FieldInfo, value: object) -> str:
    """What a field takes: its type, range or names."""
    if field.description:
        return field.description
    texts = []
    for option in _options(field.annotation):
        if get_origin(option) is Literal:
            names = [str(name) for name in get_args(option)]
            near = get_close_matches(str(value), names, n=1)
            texts.append(f"one of {', '.join(names)}" + (f" (did you mean '{near[0]}'?)" if near else ""))
        elif option is type(None):
            texts.append("null")
        elif isinstance(option, type) and issubclass(option, BaseModel):
            texts.append(f"settings ({', '.join(option.model_fields)})")
        else:
            texts.append(_TYPES.get(option, str(option)))
    bounds = [
        f"{word} {getattr(item, attribute)}"
        for item in _metadata(field)
        for kind, attribute, word in _BOUNDS
        if isinstance(item, kind)
    ]
    if bounds:
        texts[0] += " " + " and ".join(bounds)
    return " or ".join(texts)


def _options(annotation: Any) -> list[Any]:
    """The members of a union, without their Annotated wrapping."""
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return [get_args(member)[0] if hasattr(member, "__metadata__") else member for member in members]


def _metadata(field: FieldInfo) -> Iterator[Any]:
    """Constraints on the field or on a member of its union."""
    yield from field.metadata
    members = get_args(field.annotation)
    for member in members:
        for item in getattr(member, "__metadata__", ()):
            yield from item.metadata if isinstance(item, FieldInfo) else (item,)
