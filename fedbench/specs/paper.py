"""The paper's numbers in a study file by table and cell, and how sure the settings are on which they rest."""

from collections.abc import Iterator, Mapping
from itertools import product

from fedbench.base.errors import ConfigError, unknown
from fedbench.base.explain import is_key, keys
from fedbench.config import TrialConfig
from fedbench.specs.names import Axis, Label, Mark, text_label
from fedbench.specs.parts import TableSpec
from fedbench.specs.study import MarkRule, ScaleSpec, Study

Key = tuple[Label, ...]  # of a cell in a table: its row labels, then its column labels
Labels = Mapping[str, Label]


def row_keys(table: TableSpec) -> list[str]:
    """Return the names of the row labels of a table."""
    return [*table.rows, "value"] if len(table.metrics) > 1 else list(table.rows)


def paper_numbers(stem: str, study: Study, name: str) -> dict[Key, float]:
    """Return the paper's numbers of one table by cell; ConfigError if they do not fit the table."""
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
    """Return the axes at scale paper."""
    return {**study.grid, **study.scales.get("paper", ScaleSpec()).grid}


def paper_labels(study: Study, table: TableSpec, axis: str) -> list[Label]:
    """Return all labels of a table's axis at scale paper, since the paper's layout does not change with --only."""
    every = list(_paper_grid(study)[axis])
    return [label for label in every if label in table.where.get(axis, every)] or every


def check_marks(stem: str, study: Study, known: Mapping[str, list[Label]]) -> None:
    """Refuse marks of unknown settings, axes, labels and tables; known: labels by axis."""
    for key, mark in study.marks.items():
        if isinstance(mark, Mapping) and key in known:
            labels = list(map(text_label, known[key]))
            if wrong := [label for label in mark if label not in labels]:
                raise ConfigError(f"{stem}: marks.{key}: {unknown('value', wrong[0], labels)}")
        elif isinstance(mark, Mapping) or (key not in known and not is_key(TrialConfig, key)):
            raise ConfigError(f"{stem}: marks: {unknown('axis or setting', key, [*known, *keys(TrialConfig)])}")
        elif isinstance(mark, list):
            for rule in mark:
                if missing := [name for name in rule.tables if name not in study.tables]:
                    raise ConfigError(f"{stem}: marks.{key}: {unknown('table', missing[0], study.tables)}")


def marked(
    study: Study, mark: Mark, labels: Labels, config: TrialConfig, metric: str, table: str | None = None
) -> list[str]:
    """Return the names of the settings behind a cell that have a mark; a method's only if the method has the setting.

    config: of one of the cell's trials; metric, table: in which the cell is shown; table is None for a claim.
    """
    return [
        key
        for key, found in _marks(study, labels, metric, table)
        if found == mark and (not key.startswith("method.") or hasattr(config.method, key.removeprefix("method.")))
    ]


def _marks(study: Study, labels: Labels, metric: str, table: str | None) -> Iterator[tuple[str, Mark | None]]:
    """Yield every setting and its mark in one cell; None if it has none there."""
    for key, mark in study.marks.items():
        if isinstance(mark, list):
            fitting = [rule.mark for rule in mark if _fits(rule, labels, metric, table)]
            yield key, fitting[-1] if fitting else None
        elif isinstance(mark, Mapping):
            yield key, mark.get(text_label(labels[key])) if key in labels else None
        else:
            yield key, mark


def _fits(rule: MarkRule, labels: Labels, metric: str, table: str | None) -> bool:
    """Return whether a rule applies to a cell."""
    here = all(labels.get(axis) in wanted for axis, wanted in rule.where.items())
    return here and (not rule.tables or table in rule.tables) and (not rule.values or metric in rule.values)
