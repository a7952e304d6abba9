"""Turning pydantic's validation errors into one line that a user can act on."""

import types
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from fedbench.base.errors import ConfigError
from fedbench.base.fields import UNKNOWN, WRONG, SettingsChoice, ValidValues

_BOUNDS = (
    (annotated_types.Gt, "gt", "above"),
    (annotated_types.Ge, "ge", "at least"),
    (annotated_types.Lt, "lt", "below"),
    (annotated_types.Le, "le", "at most"),
)
_TYPES = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a word",
    Any: "anything",
    type(None): "null",
}
# The errors that say most, first: a typo explains a missing key, a word of ours what no member of a union took.
_FIRST = {"extra_forbidden": 0, "invalid_key": 0, UNKNOWN: 1, WRONG: 1}

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], raw: Any, where: str = "") -> Model:
    """Return settings as a model; ConfigError, in one line, with what is wrong, where, and what would be right."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"{where}{explain(error, model, raw)}") from None
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from None


def explain(error: ValidationError, model: type[BaseModel], raw: Any) -> str:
    """Return the first error as `key = value: must be ...`, with the nearest spelling of an unknown name.

    Of the members of a union, it is the error of the one that got furthest.
    """
    errors = sorted(error.errors(), key=lambda item: _FIRST.get(item["type"], 2))
    same_field = [item for item in errors if item["loc"][:1] == errors[0]["loc"][:1]]
    first = max(same_field, key=lambda item: (-_FIRST.get(item["type"], 2), len(item["loc"])))
    spot = _follow(model, raw, first["loc"])
    kind, context = first["type"], first.get("ctx", {})
    if kind == UNKNOWN:
        return f"{spot.inside(context['key'])}: {context['message']}"
    if kind == WRONG:
        return f"{spot.key}: {context['message']}" if spot.key else str(context["message"])
    if kind == "extra_forbidden" and spot.owner:
        return _unknown_key(spot, model, raw)
    if kind == "missing":
        return _missing([_follow(model, raw, item["loc"]) for item in errors if item["type"] == "missing"])
    if kind == "invalid_key":
        return f"{spot.key} is not a key; must be a word"
    value = spot.value if spot.told else first["input"]
    if first["loc"][-1:] == ("[key]",):
        return f"{spot.key}: {value!r} is not a key; must be {describe(spot.annotation, value)}"
    return f"{spot.key} = {value!r}: must be {describe(spot.annotation, value)}{_listed(spot.annotation, value)}"


def _missing(spots: list["_Spot"]) -> str:
    """Which keys are missing, all at once, with an example for each that has one."""
    keys = [spot.key for spot in spots]
    examples = [f"{spot.key}: {spot.example}" for spot in spots if spot.example]
    such = f"; write {', '.join(examples)}" if examples else ""
    return f"{', '.join(keys)} {'are' if len(keys) > 1 else 'is'} missing{such}"


def _listed(annotation: Any, value: object) -> str:
    """How to write a single value where a list is wanted; else nothing."""
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    for member in members:
        while get_origin(member) is Annotated:
            member = get_args(member)[0]
        if get_origin(member) is list and isinstance(value, str | int | float) and not isinstance(value, bool):
            return f"; write [{value}]"
    return ""


class _Spot:
    """The place of an error: its dotted key, the type that is required there, and the value.

    owner: the model whose field it is; of: its name, where it was chosen by one; example: of what may stand there;
    told: whether the type says in words what it wants, so that nothing inside it needs to be looked at.
    """

    def __init__(self, model: type[BaseModel], raw: Any) -> None:
        self.key = ""
        self.annotation: Any = model
        self.value = raw
        self.owner: type[BaseModel] | None = None
        self.of = ""
        self.example = ""

    @property
    def told(self) -> bool:
        """Return whether its type has words of its own."""
        return any(isinstance(extra, ValidValues) for extra in _extras(self.annotation))

    def inside(self, name: object) -> str:
        """Return the dotted key of an item at this place."""
        return f"{self.key}.{name}".lstrip(".")


def _follow(model: type[BaseModel], raw: Any, path: tuple[int | str, ...]) -> _Spot:
    """Follow a path through both the types and the given values; parts that name members of a union are skipped."""
    spot, above = _Spot(model, raw), ("", Any)
    for part in path:
        if spot.told:
            break
        if part == "[key]":  # it is the key itself that is wrong, not what stands under it
            spot.key, spot.annotation, spot.owner = above[0], (get_args(above[1]) or (Any,))[0], None
            break
        annotation, chosen = _settled(spot.annotation, spot.value)
        above = (spot.key, annotation)
        if _is_model(annotation):
            spot.of = f" of {chosen}" if chosen else ""
            spot.key, spot.owner = spot.inside(part), annotation
            field = written_fields(annotation).get(str(part))
            spot.annotation = _whole(field) if field else None
            spot.example = str(field.examples[0]) if field and field.examples else ""
            spot.value = spot.value.get(part) if isinstance(spot.value, Mapping) else None
        elif isinstance(spot.value, Mapping) and part in spot.value:
            spot.key, spot.owner = spot.inside(part), None
            spot.annotation, spot.value = _item(annotation), spot.value[part]
        elif isinstance(part, int) and isinstance(spot.value, list):
            spot.key, spot.owner = spot.inside(part + 1), None
            spot.annotation, spot.value = _item(annotation), spot.value[part]
        elif isinstance(part, int):  # what was written alone, and stands for a list of one
            spot.annotation = _item(annotation)
    return spot


def _whole(field: FieldInfo) -> Any:
    """Return the type of a field with its constraints."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _settled(annotation: Any, raw: Any) -> tuple[Any, str]:
    """A type without its wrapping: the member of a union that `raw` looks like; the name of a class that was chosen."""
    while get_origin(annotation) is Annotated:
        for extra in get_args(annotation)[1:]:
            if isinstance(extra, SettingsChoice) and (model := extra.of(raw)):
                return model, _name(model)
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [_settled(member, raw)[0] for member in get_args(annotation)]
        wanted = (dict, Mapping) if isinstance(raw, Mapping) else (list,)
        fitting = [member for member in members if get_origin(member) in wanted or _is_model(member)]
        return (fitting or members)[0], ""
    return annotation, ""


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _name(model: type[BaseModel]) -> str:
    """The name of a class that was chosen by one: that of its field with one possible value."""
    for field in model.model_fields.values():
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1:
            return str(get_args(field.annotation)[0])
    return ""


def _item(annotation: Any) -> Any:
    """Return the type of the items of a list or a mapping."""
    return (get_args(annotation) or (Any,))[-1]


def _unknown_key(spot: _Spot, model: type[BaseModel], raw: Any) -> str:
    assert spot.owner is not None
    stem, _, leaf = spot.key.rpartition(".")
    same_leaf = [name for name in keys(model) if name.rpartition(".")[2] == leaf and name != spot.key]
    same_leaf = [name for name in same_leaf if _follow(model, raw, tuple(name.split("."))).annotation is not None]
    known = written_fields(spot.owner)
    near = same_leaf or [f"{stem}.{name}".lstrip(".") for name in get_close_matches(leaf, known, n=1)]
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"unknown key '{spot.key}'{spot.of}; {hint}Known: {', '.join(known)}"


def written_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a class by the names that users write."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All dotted keys of a settings type, each once."""
    yield from dict.fromkeys(f"{prefix}{item.key}" for item in fields(model))


def is_key(model: type[BaseModel], key: str) -> bool:
    """Return whether a settings type has a dotted key."""
    head, _, rest = key.partition(".")
    if head not in model.model_fields:
        return False
    inner = list(_inner(model.model_fields[head]))
    return any(is_key(part, rest) for part in inner) if rest else not inner


class Key(NamedTuple):
    """A dotted key, its field, and the class that the field belongs to."""

    key: str
    field: FieldInfo
    owner: type[BaseModel]


def fields(model: type[BaseModel], above: tuple[type[BaseModel], ...] = ()) -> Iterator[Key]:
    """All dotted keys of a settings type; of those that depend on a choice, all, but none within itself."""
    for name, field in model.model_fields.items():
        inner = list(_inner(field))
        if not inner:
            yield Key(name, field, model)
        for part in inner:
            if part not in (model, *above):
                yield from (item._replace(key=f"{name}.{item.key}") for item in fields(part, (model, *above)))


def _inner(field: FieldInfo) -> Iterator[type[BaseModel]]:
    chosen = [extra for extra in field.metadata if isinstance(extra, SettingsChoice)]
    for extra in chosen:
        yield from extra.known()
    if not chosen and _is_model(field.annotation):
        yield field.annotation  # type: ignore[misc]


def describe(annotation: Any, value: object = None) -> str:
    """Return a description of the values of a type: its type, range or names."""
    extras = _extras(annotation)
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    for extra in extras:
        if isinstance(extra, ValidValues):
            return extra.text
        if isinstance(extra, SettingsChoice):
            return f"settings, such as {extra.example}" if extra.example else "settings"
    bounds = [
        f"{word} {getattr(extra, attribute)}"
        for extra in extras
        for kind, attribute, word in _BOUNDS
        if isinstance(extra, kind)
    ]
    text = _words(annotation, value)
    if any(isinstance(extra, annotated_types.MinLen) for extra in extras):
        text = text.replace("a list", "a list that is not empty", 1).replace("keys and", "one or more keys and", 1)
    if bounds:
        first, *rest = text.split(" or ", 1)
        text = " or ".join([f"{first} {' and '.join(bounds)}", *rest])
    return text


def _extras(annotation: Any) -> list[Any]:
    """Return all annotations of a type."""
    extras: list[Any] = []
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        for extra in more:
            extras += extra.metadata if isinstance(extra, FieldInfo) else [extra]
    return extras


def _words(annotation: Any, value: object) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        names = [str(name) for name in get_args(annotation)]
        near = get_close_matches(str(value), names, n=1) if value is not None else []
        return f"one of {', '.join(names)}" + (f" (did you mean '{near[0]}'?)" if near else "")
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(describe(member, value) for member in get_args(annotation)))
    if origin is list:
        return f"a list, each of it {describe(_item(annotation))}"
    if origin in (dict, Mapping):
        return "keys and values"
    if _is_model(annotation):
        return f"settings ({', '.join(annotation.model_fields)})"
    return _TYPES.get(annotation, str(annotation))
