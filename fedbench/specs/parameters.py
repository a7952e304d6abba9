"""The parameters of a search space: a range or a choice for a config key, perhaps under a condition."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from fedbench.base.errors import ConfigError, unknown
from fedbench.base.settings import Settings, merge, nest

Value = str | int | float | bool | None
KINDS = ("uniform", "loguniform", "int", "choice")
EXAMPLE = "{loguniform: [0.01, 1]}"
# What a suggestion is scored by, and where it runs: no search may choose it.
FIXED_KEYS = ("rounds", "seed", "eval_every", "data.validation", "run")


class Suggester(Protocol):
    """The part of an Optuna trial that a parameter needs."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """A number between two ends."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """A whole number between two ends."""

    def suggest_categorical(self, name: str, choices: Sequence[Value]) -> Value:
        """One of several values."""


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
        """Whether a search could suggest this value."""
        if self.kind == "choice":
            return value in self.values
        if not isinstance(value, int | float):
            return False
        low, high = self.ends
        return low <= value <= high and (self.kind != "int" or (value - low) % self.step == 0)

    def describe(self) -> Settings:
        """Plain data that is equal for equal parameters."""
        when = {key: list(values) for key, values in self.when.items()}
        return {"key": self.key, "kind": self.kind, "values": list(self.values), "step": self.step, "when": when}

    def __str__(self) -> str:
        shown = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in self.values)
        return f"{self.name} {self.kind} [{shown}]"


def parse_parameters(raw: Mapping[str, Any], where: str) -> list[Parameter]:
    """The parameters of a space file; a key may have several, each with a condition of its own."""
    if not raw:
        raise ConfigError(f"{where}: parameters is empty; name what to search, such as clients.lr: {EXAMPLE}")
    found = []
    for key, given in raw.items():
        place = f"{where}: parameters.{key}"
        if any(key == fixed or key.startswith(f"{fixed}.") for fixed in FIXED_KEYS):
            raise ConfigError(f"{place}: a search cannot choose it; set it in base")
        variants = given if isinstance(given, list) else [given]
        if not variants:
            raise ConfigError(f"{place} is empty; give it a range or a choice, such as {EXAMPLE}")
        found += [_parameter(key, variant, place) for variant in variants]
    _check_order(found, where)
    return found


def _check_order(parameters: Sequence[Parameter], where: str) -> None:
    """What never applies is an error: a condition on a later parameter, a range after one that always applies."""
    for place, parameter in enumerate(parameters):
        earlier, later = parameters[:place], {other.key for other in parameters[place + 1 :]}
        if wrong := [key for key in parameter.when if key in later and key != parameter.key]:
            raise ConfigError(f"{where}: parameters.{parameter.key}: its condition is on {wrong[0]}, which comes later")
        if any(other.key == parameter.key and not other.when for other in earlier):
            raise ConfigError(f"{where}: parameters.{parameter.key}: one without a condition must be the last")


def _parameter(key: str, raw: Any, place: str) -> Parameter:
    kinds = [kind for kind in KINDS if isinstance(raw, Mapping) and kind in raw]
    if len(kinds) != 1:
        raise ConfigError(f"{place} = {raw!r}: must have one of {', '.join(KINDS)}, such as {EXAMPLE}")
    (kind,) = kinds
    for extra in raw:
        if extra not in (kind, "when", *(["step"] if kind == "int" else [])):
            if extra == "step":
                raise ConfigError(f"{place}: step is for int alone")
            raise ConfigError(f"{place}: {unknown('key', extra, [kind, 'when', *(['step'] if kind == 'int' else [])])}")
    values = _choices(raw[kind], place) if kind == "choice" else _range(kind, raw[kind], f"{place}.{kind}")
    step = raw.get("step", 1)
    if type(step) is not int or step < 1:
        raise ConfigError(f"{place}.step = {step!r}: must be a whole number at least 1")
    return Parameter(key, key, kind, values, step, _conditions(raw.get("when", {}), place))


def _choices(raw: Any, place: str) -> tuple[Value, ...]:
    if not isinstance(raw, list) or not raw:
        raise ConfigError(f"{place}.choice = {raw!r}: a choice of nothing; must be a list of values")
    if not all(isinstance(value, Value) for value in raw):
        raise ConfigError(f"{place}.choice = {raw!r}: must be words, numbers, true, false or null")
    return tuple(raw)


def _range(kind: str, raw: Any, place: str) -> tuple[Value, ...]:
    number = int if kind == "int" else (int, float)
    good = isinstance(raw, list) and len(raw) == 2
    if not good or not all(isinstance(x, number) and not isinstance(x, bool) and math.isfinite(x) for x in raw):
        word = "whole numbers" if kind == "int" else "numbers"
        raise ConfigError(f"{place} = {raw!r}: must be [low, high], two {word}")
    low, high = raw
    if low > high:
        raise ConfigError(f"{place} = {raw!r}: low is above high; must be [low, high]")
    if low == high:
        raise ConfigError(f"{place} = {raw!r}: an empty range; put {low} into base, or widen it")
    if kind == "loguniform" and low <= 0:
        raise ConfigError(f"{place} = {raw!r}: a logarithm needs numbers above 0; raise low, or use uniform")
    return (low, high) if kind == "int" else (float(low), float(high))


def _conditions(raw: Any, place: str) -> dict[str, tuple[Value, ...]]:
    if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
        raise ConfigError(f"{place}.when = {raw!r}: must be keys and values, such as {{method.name: fedprox}}")
    return {key: tuple(value) if isinstance(value, list) else (value,) for key, value in raw.items()}


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
    found = [fixed]
    for parameter in parameters:
        for value in parameter.values:

            def choose(other: Parameter, parameter: Parameter = parameter, value: Value = value) -> Value:
                if other is parameter:
                    return value
                return next((v for v in parameter.when.get(other.key, ()) if other.contains(v)), other.values[0])

            found.append(fill(fixed, parameters, choose))
    return found


MISSING: Any = object()


def look_up(settings: Settings, key: str) -> Any:
    """The value at a dotted key of nested settings, or MISSING."""
    value: Any = settings
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value
