"""The parameters of a search space: a range or a choice for a config key, perhaps under a condition."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Protocol, cast

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from fedbench.base.errors import ConfigError
from fedbench.base.fields import SettingsChoice, Strict, ValidValues, invalid, no_duplicates
from fedbench.base.settings import Settings, merge, nest

Value = str | int | float | bool | None
EXAMPLE = "{loguniform: [0.01, 1]}"
# What a suggestion is scored by, and where it runs: no search may choose it.
FIXED_KEYS = ("rounds", "seed", "eval_every", "data.validation", "run")


class ParameterSpec(Strict):
    """A parameter as a file has it; a kind adds its values under its own name."""

    kind: ClassVar[str]
    when: Annotated[dict[str, Value | list[Value]], ValidValues("keys and values, such as {method.name: fedprox}")] = {}
    """other keys and the value, or values, that they must have for this one to apply"""

    @property
    def values(self) -> tuple[Value, ...]:
        """Both ends of a range, or all choices."""
        return tuple(getattr(self, self.kind))


class RangeSpec(ParameterSpec):
    """Any number between two ends."""

    @model_validator(mode="after")
    def _check(self) -> "RangeSpec":
        low, high = cast(tuple[float, float], self.values)
        given = f"{self.kind} = {[low, high]}"
        if low > high:
            raise invalid(f"{given}: low is above high; must be [low, high]")
        if low == high:
            raise invalid(f"{given}: an empty range; put {low} into base, or widen it")
        if self.kind == "loguniform" and low <= 0:
            raise invalid(f"{given}: a logarithm needs numbers above 0; raise low, or use uniform")
        return self


Ends = Annotated[list[float], Field(min_length=2, max_length=2), ValidValues("[low, high], two numbers")]


class UniformSpec(RangeSpec):
    """Any number between two ends, all alike."""

    kind = "uniform"
    uniform: Ends


class LogUniformSpec(RangeSpec):
    """Any number between two ends, all orders of magnitude alike."""

    kind = "loguniform"
    loguniform: Ends


class IntSpec(RangeSpec):
    """A whole number between two ends."""

    kind = "int"
    int: Annotated[list[builtins.int], Field(min_length=2, max_length=2), ValidValues("[low, high], two whole numbers")]
    step: Annotated[builtins.int, Field(ge=1)] = 1
    """between neighbouring values"""


class ChoiceSpec(ParameterSpec):
    """One of several values."""

    kind = "choice"
    choice: Annotated[
        list[Value],
        Field(min_length=1),
        AfterValidator(no_duplicates),
        ValidValues("a list of values that is not empty"),
    ]


KINDS: Mapping[str, type[ParameterSpec]] = {
    spec.kind: spec for spec in (UniformSpec, LogUniformSpec, IntSpec, ChoiceSpec)
}


def _kind(given: Mapping[str, Any]) -> type[ParameterSpec]:
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) != 1:
        raise invalid(f"{dict(given)}: must have one of {', '.join(KINDS)}, such as {EXAMPLE}")
    return KINDS[kinds[0]]


def _listed(given: Any) -> Any:
    return given if isinstance(given, list) else [given]


def _not_empty(given: dict[str, Any]) -> dict[str, Any]:
    if not given:
        raise invalid(f"is empty; name what to search, such as clients.lr: {EXAMPLE}")
    return given


OneParameter = Annotated[ParameterSpec, SettingsChoice(_kind, KINDS.values, EXAMPLE)]
Parameters = Annotated[  # by key; a key may have several, each with a condition of its own
    dict[str, Annotated[list[OneParameter], BeforeValidator(_listed), Field(min_length=1)]], AfterValidator(_not_empty)
]


class Suggester(Protocol):
    """The part of an Optuna trial that a parameter needs."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """Return a number between two ends."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Return a whole number between two ends."""

    def suggest_categorical(self, name: str, choices: Sequence[Value]) -> Value:
        """Return one of several values."""


@dataclass(frozen=True)
class Parameter:
    """Values that a search may give to a config key.

    values: both ends of a range, or all choices; step: of an `int` range; when: other keys and the values that they
    must have for this parameter to apply; name: what Optuna calls it.
    """

    key: str
    name: str
    kind: str
    values: tuple[Value, ...]
    step: int = 1
    when: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, spec: ParameterSpec) -> "Parameter":
        """The parameter that a file describes."""
        when = {other: tuple(_listed(values)) for other, values in spec.when.items()}
        return cls(key, key, spec.kind, spec.values, spec.step if isinstance(spec, IntSpec) else 1, when)

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of a range."""
        return cast(tuple[float, float], self.values)

    def suggest(self, trial: Suggester) -> Value:
        """Ask Optuna for a value."""
        if self.kind == "choice":
            return trial.suggest_categorical(self.name, self.values)
        low, high = self.ends
        if self.kind == "int":
            return trial.suggest_int(self.name, int(low), int(high), step=self.step)
        return trial.suggest_float(self.name, low, high, log=self.kind == "loguniform")

    def contains(self, value: Any) -> bool:
        """Return whether a search could suggest this value."""
        if self.kind == "choice":
            return value in self.values
        if not isinstance(value, int | float):
            return False
        low, high = self.ends
        return low <= value <= high and (self.kind != "int" or (value - low) % self.step == 0)

    def describe(self) -> Settings:
        """Return plain data that are equal for equal parameters."""
        when = {key: list(values) for key, values in self.when.items()}
        return {"key": self.key, "kind": self.kind, "values": list(self.values), "step": self.step, "when": when}

    def __str__(self) -> str:
        shown = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in self.values)
        return f"{self.name} {self.kind} [{shown}]"


def parameters_in(specs: Mapping[str, Sequence[ParameterSpec]], where: str) -> list[Parameter]:
    """The parameters of a space file, checked against each other."""
    for key in specs:
        if any(key == fixed or key.startswith(f"{fixed}.") for fixed in FIXED_KEYS):
            instead = "name seeds under seeds" if key == "seed" else "set it in base"
            raise ConfigError(f"{where}: parameters.{key}: a search cannot choose it; {instead}")
    parameters = [Parameter.of(key, spec) for key, variants in specs.items() for spec in variants]
    _check_order(parameters, where)
    return parameters


def _check_order(parameters: Sequence[Parameter], where: str) -> None:
    """Refuse conditions on later parameters, and ranges that follow one that always applies."""
    for index, parameter in enumerate(parameters):
        earlier, later = parameters[:index], {other.key for other in parameters[index + 1 :]}
        if wrong_keys := [key for key in parameter.when if key in later and key != parameter.key]:
            raise ConfigError(
                f"{where}: parameters.{parameter.key}: its condition is on {wrong_keys[0]}, which comes later"
            )
        if any(other.key == parameter.key and not other.when for other in earlier):
            raise ConfigError(f"{where}: parameters.{parameter.key}: one without a condition must be the last")


def parameters_of(fixed: Settings, parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters that can apply to a method: conditions on its fixed settings are decided here, others stay."""
    kept: list[Parameter] = []
    for parameter in parameters:
        open_ = {key: wanted for key, wanted in parameter.when.items() if key in {earlier.key for earlier in kept}}
        decided = {key: wanted for key, wanted in parameter.when.items() if key not in open_}
        if all(look_up(fixed, key) in wanted for key, wanted in decided.items()):
            kept.append(replace(parameter, when=open_))
    return _named(kept)


def _named(parameters: list[Parameter]) -> list[Parameter]:
    """Names for Optuna: the key, with the condition where a method has several parameters for one key."""
    keys = [parameter.key for parameter in parameters]
    return [replace(p, name=f"{p.key} if {_condition(p)}") if keys.count(p.key) > 1 else p for p in parameters]


def _condition(parameter: Parameter) -> str:
    return ", ".join(f"{key}={'|'.join(map(str, values))}" for key, values in parameter.when.items()) or "else"


Choose = Callable[[Parameter], Value]


def fill(fixed: Settings, parameters: Sequence[Parameter], choose: Choose) -> Settings:
    """Settings with a value for every parameter that applies; the first of a key's parameters that applies wins."""
    settings, chosen = fixed, set[str]()
    for parameter in parameters:
        holds = all(look_up(settings, key) in wanted for key, wanted in parameter.when.items())
        if holds and parameter.key not in chosen:
            chosen.add(parameter.key)
            settings = merge(settings, nest({parameter.key: choose(parameter)}))
    return settings


def corners(fixed: Settings, parameters: Sequence[Parameter]) -> list[Settings]:
    """Settings that try every end and every choice of every parameter once, conditions made to hold."""
    tried = [fixed]
    for parameter in parameters:
        for value in parameter.values:

            def choose(other: Parameter, parameter: Parameter = parameter, value: Value = value) -> Value:
                if other is parameter:
                    return value
                return next((v for v in parameter.when.get(other.key, ()) if other.contains(v)), other.values[0])

            tried.append(fill(fixed, parameters, choose))
    return tried


MISSING: Any = object()


def look_up(settings: Settings, key: str) -> Any:
    """The value at a dotted key of nested settings, or MISSING."""
    value: Any = settings
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value
