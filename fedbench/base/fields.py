"""The base of all settings and specs, and types of settings with the ranges that error messages show.

The upper ends only keep numbers within what float32 and the system can hold.
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

WRONG, UNKNOWN = "wrong", "unknown_name"  # types of errors whose message needs no more explaining


class Strict(BaseModel):
    """What users write: frozen, strictly typed, unknown keys forbidden. A field's docstring is for the docs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Says:
    """What a field takes, in words, where its type and range do not say it: Annotated[str, Says("auto or cpu")]."""

    text: str


@dataclass(frozen=True)
class Later:
    """Marks a setting that came after trials had been stored: at its default it is no part of a hash."""


def counted(settings: BaseModel, unused: Iterable[str] = ()) -> dict[str, Any]:
    """Settings as plain data for a hash: without unused ones, and without later ones that have their default."""
    fields = type(settings).model_fields
    later = {key for key, field in fields.items() if any(isinstance(mark, Later) for mark in field.metadata)}
    usual = {key for key in later if getattr(settings, key) == fields[key].default}
    return settings.model_dump(mode="json", exclude=usual | set(unused))


def wrong(message: str) -> PydanticCustomError:
    """An error for a validator to raise; where it stands is added to it."""
    return PydanticCustomError(WRONG, "{message}", {"message": message})


def once(items: list[Any]) -> list[Any]:
    """A validator for a list whose items must differ."""
    if twice := first_twice(items):
        raise wrong(f"{twice[0]} stands twice; name it once")
    return items


def first_twice(items: Iterable[Any]) -> list[Any]:
    """The first item that came before, in a list; an empty one if all differ. Quick, however many there are."""
    seen = set[Any]()
    for item in items:
        if item in seen:
            return [item]
        seen.add(item)
    return []


Seeds = Annotated[list[Whole], Field(min_length=1), AfterValidator(once)]


@dataclass(frozen=True)
class Chosen:
    """A field whose class depends on what is written there: Annotated[Base, Chosen(choose, known)].

    choose: from the settings as written to their class; known: all classes that there are; example: of settings.
    """

    choose: Callable[[Mapping[str, Any]], type[BaseModel]]
    known: Callable[[], Iterable[type[BaseModel]]]
    example: str = ""

    def of(self, given: Any) -> type[BaseModel] | None:
        """The class of some settings, None where they are of none."""
        try:
            return self.choose(given) if isinstance(given, Mapping) else None
        except PydanticCustomError:
            return None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate with the class that is chosen; errors inside keep their place."""
        serialise = core_schema.plain_serializer_function_ser_schema(lambda value: value.model_dump(mode="json"))
        return core_schema.no_info_plain_validator_function(self._validate, serialization=serialise)

    def _validate(self, given: Any) -> BaseModel:
        if isinstance(given, BaseModel):
            return given
        if not isinstance(given, Mapping):
            raise PydanticCustomError("settings", "must be settings")
        return self.choose(given).model_validate(given)


def fixed_name(model: type[BaseModel], field: str) -> str:
    """The name that a class fixes: that of its field `field: Literal["name"]`."""
    options = get_args(model.model_fields[field].annotation) if field in model.model_fields else ()
    if len(options) != 1 or not isinstance(options[0], str):
        raise ConfigError(
            f"{model.__name__}.{field}: must be fixed to a name, such as {field}: Literal['mine'] = 'mine'"
        )
    return str(options[0])


def one_of(key: str, get: Callable[[Any], type[BaseModel]], known: Iterable[str], default: str | None = None) -> Chosen:
    """A union told apart by the name under `key`; `get` finds the class of a name, or raises ConfigError."""

    def choose(given: Mapping[str, Any]) -> type[BaseModel]:
        if default is None and key not in given:
            message = f"is missing; must be one of {', '.join(known)}"
            raise PydanticCustomError(UNKNOWN, "{message}", {"message": message, "key": key})
        try:
            return get(given.get(key, default))
        except ConfigError as error:
            raise PydanticCustomError(UNKNOWN, "{message}", {"message": str(error), "key": key}) from None

    return Chosen(choose, lambda: [get(name) for name in known], f"{{{key}: {default or '...'}}}")
