"""The record of one round, and the declarations of all columns and tables that a record may have."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fedbench.base.errors import ConfigError, unknown
from fedbench.indicators.base import INDICATORS, Column, Row, Rows
from fedbench.methods import METHODS

COLUMN = "column"  # the key under which a field of Record keeps its column
WORK = "work"  # the table with the epochs that each sampled client did, 0 if it did not answer
WORK_COLUMNS = (Column("absent_clients", "absent clients"), Column("partial_clients", "clients with partial work"))


def _column(name: str, label: str, default: float | None = None, factor: float = 1.0) -> Any:
    """Declare a field of Record that is a column of rounds.csv."""
    return field(default=default, metadata={COLUMN: Column(name, label, factor=factor, file="rounds")})


@dataclass(frozen=True)
class Record:
    """The results of one round. Accuracies are fractions. None means not evaluated, not defined, or diverged.

    train_loss: mean training loss of the cohort's clients, weighted by data size.
    seconds_eval: time for evaluation and indicators.
    clients, lambda_, samples: ids of the cohort's clients, their weights and data sizes |D_i|.
    indicators: numbers by column. Each is also an attribute, such as `record.gamma`.
    tables: rows by table, without the round.
    diverged: reason why the run ends with this round, None if it does not.
    skipped: reason why this round left the global model as it was, None if it did not.
    """

    round: int
    test_accuracy: float | None = _column("test_accuracy", "test accuracy (%)", factor=100)
    test_loss: float | None = _column("test_loss", "test loss")
    train_loss: float | None = _column("train_loss", "training loss")
    seconds_train: float = _column("seconds_train", "seconds of local training", 0.0)
    seconds_server: float = _column("seconds_server", "seconds on the server", 0.0)
    seconds_eval: float = _column("seconds_eval", "seconds of scoring", 0.0)
    validation_accuracy: float | None = _column("validation_accuracy", "validation accuracy (%)", factor=100)
    validation_loss: float | None = _column("validation_loss", "validation loss")
    clients: tuple[int, ...] = ()
    lambda_: tuple[float, ...] = ()
    samples: tuple[int, ...] = ()
    indicators: Mapping[str, float | None] = field(default_factory=dict)
    tables: Mapping[str, Rows] = field(default_factory=dict)
    diverged: str | None = None
    skipped: str | None = None

    def __post_init__(self) -> None:
        """Replace NaN and infinity by None."""
        for item in fields(self):
            if COLUMN in item.metadata:
                object.__setattr__(self, item.name, _finite(getattr(self, item.name)))
        object.__setattr__(self, "indicators", {name: _finite(value) for name, value in self.indicators.items()})
        tables = {name: tuple(tuple(map(_finite, row)) for row in rows) for name, rows in self.tables.items()}
        object.__setattr__(self, "tables", tables)

    def __getattr__(self, name: str) -> float | None:
        """An indicator's number by the name of its column; None if it was not computed in this round."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.indicators or name in columns():
            return self.indicators.get(name)
        raise AttributeError(unknown("column or indicator", name, columns()))

    def as_dict(self) -> dict[str, Any]:
        """All fields by name, as plain types."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def numbers(self) -> dict[str, float]:
        """All numbers of this round by the names of their columns, without those that are None."""
        own = {item.name: getattr(self, item.name) for item in fields(self) if COLUMN in item.metadata}
        numbers = {**own, **self.indicators}
        return {name: numbers[name] for name in columns() if numbers.get(name) is not None}


def columns() -> dict[str, Column]:
    """All columns that a record may have, by name: its fields, then those of indicators and methods.

    Raise ConfigError if two columns have the same name.
    """
    known = [item.metadata[COLUMN] for item in fields(Record) if COLUMN in item.metadata]
    known += [*WORK_COLUMNS, *(column for _, indicator in INDICATORS.items() for column in indicator.columns())]
    own_of_methods = {name: label for _, method in METHODS.items() for name, label in method.metrics.items()}
    known += [Column(name, label) for name, label in own_of_methods.items()]
    by_name = {column.name: column for column in known}
    own = [item.name for item in fields(Record) if COLUMN not in item.metadata]
    if twice := [column.name for column in known if by_name[column.name] is not column or column.name in own]:
        raise ConfigError(
            f"column '{twice[0]}': the name is used by two of the record, indicators and methods; choose another name"
        )
    return by_name


def round_columns(validation: bool) -> list[str]:
    """The header of rounds.csv: the round and its columns, with those of the validation set if there is one."""
    names = [name for name, column in columns().items() if column.file == "rounds"]
    return ["round", *(name for name in names if validation or not name.startswith("validation_"))]


def tables() -> dict[str, tuple[str, ...]]:
    """The headers of all tables that have rows for every round, by name. The first column is the round."""
    declared = {name: header for _, indicator in INDICATORS.items() for name, header in indicator.tables.items()}
    own = {"indicators": ("round", "name", "value"), WORK: ("round", "client", "epochs")}
    return own | {name: ("round", *header) for name, header in declared.items()}


def _finite(value: Any) -> Any:
    """The value, or None for a float that is NaN or infinite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


__all__ = ["Record", "Row", "columns", "round_columns", "tables"]
