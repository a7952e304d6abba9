"""What an indicator is: settings under `indicators.`, the columns and tables that it fills, and what it computes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import create_model
from torch import Tensor

from fedbench.base.errors import ConfigError
from fedbench.base.fields import Strict
from fedbench.base.fingerprint import outside_module
from fedbench.base.registry import Registry, with_brackets
from fedbench.data.samples import Federation, Samples
from fedbench.indicators.scoring import Score, score
from fedbench.methods import Cohort, Update
from fedbench.models import FlatModel

Row = tuple[float | int | str | None, ...]
Rows = Sequence[Row]


@dataclass(frozen=True)
class Column:
    """A number that a round may have: its name in files, and how people read it.

    label: with its unit, for the axis of a plot; short: in a legend, where one plot has several; axis: what such a
    plot's axis is called; factor: from files to plots (100 for percent); log: on a logarithmic axis; file: a column
    of rounds.csv, or a name in indicators.csv.
    """

    name: str
    label: str
    short: str = ""
    axis: str = ""
    factor: float = 1.0
    log: bool = False
    file: Literal["rounds", "indicators"] = "indicators"


class Predict(Protocol):
    """Logits and labels of some samples, by default the test set, under a model w [P] with statistics [Q]."""

    def __call__(self, w: Tensor, buffers: Tensor, samples: Samples = ...) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield logits [B, classes] and labels [B], batch by batch."""


@dataclass(frozen=True)
class RunContext:
    """What an indicator may read: the current global model, the data, and the position in the run.

    w [P], buffers [Q]: the global model, in the order that `FlatModel` states (`model.layers.tensors` gives views of w
    in the tensors' true shapes); predict(w, buffers): logits and labels over the test set, batch by batch, or over
    the samples that are given as a third argument.
    own_models: model [P] and statistics [Q] of each client, where clients have models of their own in place of the
    global one; else empty.
    """

    round: int
    rounds: int
    seed: int
    model: FlatModel
    w: Tensor
    buffers: Tensor
    federation: Federation
    predict: Predict
    own_models: Sequence[tuple[Tensor, Tensor]]

    def score(self, w: Tensor) -> Score:
        """Accuracy and loss of parameters w [P] on the test set."""
        return score(self.predict(w, self.buffers))

    def due(self, every: int) -> bool:
        """Return whether something costly is due: every `every` rounds (0 for never), and in the last one."""
        return every > 0 and (self.round % every == 0 or self.round == self.rounds)


@dataclass(frozen=True)
class RoundContext(RunContext):
    """The same at the end of a round, with the cohort and the update from which the model follows."""

    cohort: Cohort
    update: Update


Moment, RoundMoment = RunContext, RoundContext  # their names until 0.1, in plugins


@dataclass(frozen=True)
class Observation:
    """What an indicator records: numbers by column, rows by table (without the round)."""

    values: Mapping[str, float | None] = field(default_factory=dict)
    tables: Mapping[str, Rows] = field(default_factory=dict)


NOTHING = Observation()


class NoSettings(Strict):
    """No settings: for indicators that are always recorded."""


S = TypeVar("S", bound=Strict)


class Indicator(Generic[S]):
    """Something to record. Subclasses are stateless, and never change a result.

    `tables` names tables with a row or more a round, `final_tables` those of the final model: CSV files with these
    columns, the round before them in the former.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[Strict]] = NoSettings
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    final_tables: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def columns(self) -> Sequence[Column]:
        """The numbers that a round may have."""
        return ()

    def check(self, settings: S, clients: int, participants: int) -> str | None:
        """What is wrong with the settings in a run of so many clients, of whom so many take part in a round."""
        return None

    def canonical(self, settings: S) -> dict[str, object]:
        """The settings that can change what is recorded, for the hash."""
        return settings.model_dump(mode="json", include=set(type(self).Settings.model_fields))

    def observe(self, settings: S, context: RoundContext) -> Observation:
        """Look at a round."""
        return NOTHING

    def conclude(self, settings: S, context: RunContext) -> Mapping[str, Rows]:
        """Look at the final model, once all rounds are done: rows by table."""
        return {}


INDICATORS: Registry[Indicator[Any]] = Registry("indicator", home="fedbench.indicators")

I = TypeVar("I", bound=type[Indicator[Any]])  # noqa: E741


def register_indicator(version: str | None = None) -> Callable[[I], I]:
    """Decorate an Indicator subclass, which has a `name`; one from outside the package may give a `version`."""
    with_brackets("register_indicator()", version)

    def register(indicator: I) -> I:
        if version is not None or outside_module():
            _check_outside(indicator)
        INDICATORS.add(indicator.name, indicator(), version)
        return indicator

    return register


FILES = {"rounds", "clients", "partition", "indicators", "summary", "config", "environment", "trial"}


def _check_outside(indicator: type[Indicator[Any]]) -> None:
    """An indicator from outside must be off until it is asked for, and takes no name that another has."""
    if needed := [name for name, field in indicator.Settings.model_fields.items() if field.is_required()]:
        raise ConfigError(f"indicator '{indicator.name}': its setting '{needed[0]}' needs a default that turns it off")
    if not all(isinstance(column, Column) for column in indicator().columns()):
        raise ConfigError(f"indicator '{indicator.name}': columns must give Columns, such as Column('name', 'label')")
    if not indicator.Settings.model_fields:
        raise ConfigError(
            f"indicator '{indicator.name}': needs a setting that turns it on; or stored trials would lack it unseen"
        )
    if taken := _names(indicator) & FILES:
        raise ConfigError(f"indicator '{indicator.name}': every trial has a file '{min(taken)}'; choose another name")
    for name, other in INDICATORS.items():
        if name != indicator.name and (taken := _names(indicator) & _names(type(other))):
            raise ConfigError(f"indicator '{indicator.name}': '{name}' has '{min(taken)}', too; choose another name")


def _names(indicator: type[Indicator[Any]]) -> set[str]:
    """The settings and tables of an indicator."""
    return {*indicator.Settings.model_fields, *indicator.tables, *indicator.final_tables}


def indicator_settings() -> type[Strict]:
    """One class with the settings of all indicators that there are."""
    return _composed(tuple(indicator.Settings for _, indicator in INDICATORS.items()))


@lru_cache
def _composed(parts: tuple[type[Strict], ...]) -> type[Strict]:
    bases = tuple(dict.fromkeys(part for part in parts if part.model_fields))
    return create_model("IndicatorSettings", __base__=bases or Strict)


# Settings that have been part of every hash from the start; any other counts where it is not the default, so that a new
# indicator changes no hash.
ALWAYS = ("coherence", "hessian_every", "hessian_samples", "landscape", "server_path", "simplex_every", "simplex_grid")


def canonical_indicators(settings: Strict) -> dict[str, object]:
    """Return the settings of what is recorded, for the hash."""
    form: dict[str, object] = {}
    for name, indicator in INDICATORS.items():
        if not indicator.Settings.model_fields:
            continue
        given, usual = indicator.canonical(settings), indicator.canonical(indicator_settings()())
        counted = {key: value for key, value in given.items() if key in ALWAYS or value != usual.get(key)}
        if counted and (version := INDICATORS.version(name)) is not None:
            counted[f"{name} version"] = version
        form |= counted
    return form


def plain_indicators(settings: Strict) -> dict[str, object]:
    """The settings as plain data; those of plugins only where they are not the default: files outlive plugins."""
    outside = [indicator for name, indicator in INDICATORS.items() if INDICATORS.version(name) is not None]
    form, usual = settings.model_dump(mode="json"), indicator_settings()().model_dump(mode="json")
    unneeded = {key for indicator in outside for key in indicator.Settings.model_fields if form[key] == usual[key]}
    return {key: value for key, value in form.items() if key not in unneeded}
