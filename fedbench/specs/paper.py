"""The paper's numbers in a study file, by the places of the tables that they belong to."""

from itertools import product

from fedbench.base.errors import ConfigError, unknown
from fedbench.specs.names import Axis, Label
from fedbench.specs.parts import TableSpec
from fedbench.specs.study import ScaleSpec, Study

Key = tuple[Label, ...]  # of a place in a table: its row labels, then its column labels


def row_keys(table: TableSpec) -> list[str]:
    """The names of a table's row labels."""
    return [*table.rows, "value"] if len(table.metrics) > 1 else list(table.rows)


def paper_numbers(stem: str, study: Study, name: str) -> dict[Key, float]:
    """The paper's numbers of one table by place; an error where they do not fit the table."""
    if study.reference is None or name not in study.reference.tables:
        return {}
    table, where = study.tables[name], f"{stem}: reference.{name}"
    if missing := [axis for axis in table.axes if axis not in _paper_grid(study)]:
        raise ConfigError(f"{where}: scale paper has no axis '{missing[0]}'; give it one there")
    keys = row_keys(table)
    columns: list[Key] = list(product(*(paper_labels(study, table, axis) for axis in table.columns)))
    columns += [(table.pool,)] if table.pool else []
    rows, numbers = study.reference.tables[name], dict[Key, float]()
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ConfigError(f"{where} = {rows!r}: must be a list of rows, each a list")
    for row in rows:
        if len(row) != len(keys) + len(columns):
            raise ConfigError(
                f"{where}: {row} has {len(row)} entries; must be {len(keys)} row labels and {len(columns)} values"
            )
        for key, label in zip(keys, row, strict=False):
            allowed = table.metrics if key == "value" else paper_labels(study, table, key)
            if label not in allowed:
                raise ConfigError(f"{where}: {unknown(f'value of {key}', label, map(str, allowed))}")
        for column, number in zip(columns, row[len(keys) :], strict=True):
            if number is not None and not _is_number(number):
                raise ConfigError(f"{where}: {row} has {number!r}; must be a number or null")
            if number is not None:
                numbers[(*row[: len(keys)], *column)] = float(number)
    return numbers


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _paper_grid(study: Study) -> dict[str, Axis]:
    """The axes at scale paper."""
    return {**study.grid, **study.scales.get("paper", ScaleSpec()).grid}


def paper_labels(study: Study, table: TableSpec, axis: str) -> list[Label]:
    """An axis of a table in full, as the file has it at scale paper: the paper's layout does not change with --only."""
    every = list(_paper_grid(study)[axis])
    return [label for label in every if label in table.where.get(axis, every)] or every
