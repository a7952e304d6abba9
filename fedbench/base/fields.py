"""The base class of settings and specs, and field types whose ranges appear in error messages.

The upper bounds only keep numbers within what float32 and the operating system can represent.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fedbench.base.errors import ConfigError

Positive = Annotated[float, Field(gt=0, le=1e30)]
NonNegative = Annotated[float, Field(ge=0, le=1e30)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Whole = Annotated[int, Field(ge=0, le=10**9)]

WRONG, UNKNOWN = "wrong", "unknown_name"  # types of errors whose message is shown as it is


class Strict(BaseModel):
    """Base class of everything that users write: frozen, strictly typed, and without unknown keys.

    The docstring below a field is its description in the docs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class ValidValues:
    """Describes a field's valid values where its type and range do not: Annotated[str, ValidValues("auto or cpu")]."""

    text: str


@dataclass(frozen=True)
class UnhashedDefault:
    """Marks a setting that was added after trials had been stored: its default value is left out of the hash."""


Later = UnhashedDefault  # deprecated: the name in version 0.1, which plugins may import


def hashed_settings(settings: BaseModel, unused: Iterable[str] = ()) -> dict[str, Any]:
    """Settings as plain data for a hash, without those in `unused` and without unhashed defaults."""
    fields = type(settings).model_fields
    marked = {key for key, field in fields.items() if any(isinstance(mark, UnhashedDefault) for mark in field.metadata)}
    at_default = {key for key in marked if getattr(settings, key) == fields[key].default}
    return settings.model_dump(mode="json", exclude=at_default | set(unused))


def invalid(message: str) -> PydanticCustomError:
    """An error that a validator can raise. `explain` puts the field's key in front of the message."""
    return PydanticCustomError(WRONG, "{message}", {"message": message})


def no_duplicates(items: list[Any]) -> list[Any]:
    """Validate that the items of a list differ from one another."""
    if duplicate := first_duplicate(items):
        raise invalid(f"{duplicate[0]} stands twice; name it once")
    return items


def first_duplicate(items: Iterable[Any]) -> list[Any]:
    """The first item that equals an earlier one, as a list of one; an empty list if all differ. Takes linear time."""
    seen = set[Any]()
    for item in items:
        if item in seen:
            return [item]
        seen.add(item)
    return []


Seeds = Annotated[list[Whole], Field(min_length=1), AfterValidator(no_duplicates)]


@dataclass(frozen=True)
class SettingsChoice:
    """A field whose settings class depends on the settings: Annotated[Base, SettingsChoice(choose, known)].

    choose: maps the settings, as they were written, to their class. known: returns all classes that can be chosen.
    example: an example of such settings for error messages.
    """

    choose: Callable[[Mapping[str, Any]], type[BaseModel]]
    known: Callable[[], Iterable[type[BaseModel]]]
    example: str = ""

    def of(self, given: Any) -> type[BaseModel] | None:
        """The class of the given settings, or None if no class fits."""
        try:
            return self.choose(given) if isinstance(given, Mapping) else None
        except PydanticCustomError:
            return None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate with the chosen class, so that errors keep their location."""
        serialise = core_schema.plain_serializer_function_ser_schema(lambda value: value.model_dump(mode="json"))
        return core_schema.no_info_plain_validator_function(self._validate, serialization=serialise)

    def _validate(self, given: Any) -> BaseModel:
        if isinstance(given, BaseModel):
            return given
        if not isinstance(given, Mapping):
            raise PydanticCustomError("settings", "must be settings")
        return self.choose(given).model_validate(given)


def fixed_name(model: type[BaseModel], field: str) -> str:
    """The value of a field that is declared as `field: Literal["name"]`."""
    options = get_args(model.model_fields[field].annotation) if field in model.model_fields else ()
    if len(options) != 1 or not isinstance(options[0], str):
        raise ConfigError(
            f"{model.__name__}.{field}: must be fixed to a name, such as {field}: Literal['mine'] = 'mine'"
        )
    return str(options[0])


def one_of(
    key: str, get: Callable[[Any], type[BaseModel]], known: Iterable[str], default: str | None = None
) -> SettingsChoice:
    """A union discriminated by the name under `key`; `get` returns the class for a name or raises ConfigError."""

    def choose(given: Mapping[str, Any]) -> type[BaseModel]:
        if default is None and key not in given:
            message = f"is missing; must be one of {', '.join(known)}"
            raise PydanticCustomError(UNKNOWN, "{message}", {"message": message, "key": key})
        try:
            return get(given.get(key, default))
        except ConfigError as error:
            raise PydanticCustomError(UNKNOWN, "{message}", {"message": str(error), "key": key}) from None

    return SettingsChoice(choose, lambda: [get(name) for name in known], f"{{{key}: {default or '...'}}}")
