"""What an indicator promises."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from fedbench.base.settings import nest
from fedbench.indicators import INDICATORS, Indicator
from fedbench.indicators.base import Rows
from fedbench.simulation import Simulation
from fedbench.simulation.observe import final_tables
from fedbench.testing.runs import promise, resumed, run, said_as_broken_promise, same
from fedbench.testing.tiny import tiny


def check_indicator(name: str, settings: Mapping[str, Any] | None = None) -> None:
    """Check that a registered indicator keeps the promises of indicators; `settings`, with dotted keys, turn it on.

    It changes no result; it records something, the same in a resumed run, and only what it announces: numbers or None,
    and rows as long as their header.
    """
    given = nest(settings or {})
    config = tiny(given)
    with said_as_broken_promise():  # such as what was not announced
        watched = run(config)
        final = final_tables(watched)
    alone = run(tiny({key: value for key, value in given.items() if key != "indicators"}))
    promise(
        torch.equal(watched.state.w, alone.state.w) and torch.equal(watched.state.buffers, alone.state.buffers),
        f"indicator '{name}': it changes the run that it looks at; work on copies",
    )
    promise(
        same(watched, resumed(config, rounds=1)),
        f"indicator '{name}': a resumed run records something else; it must keep nothing between rounds",
    )
    check_recorded(name, INDICATORS.get(name), watched, {table: rows for table, (_, rows) in final.items()})


def check_recorded(name: str, indicator: Indicator[Any], run: Simulation, final: Mapping[str, Rows]) -> None:
    """Look at all numbers and rows that one indicator left behind."""
    history, columns = run.state.history, {column.name for column in indicator.columns()}
    numbers = [(key, value) for record in history for key, value in record.indicators.items() if key in columns]
    for key, value in numbers:
        promise(
            value is None or isinstance(value, int | float),
            f"indicator '{name}': {key} is a {type(value).__name__}; must be a number, or None where there is none",
        )
    rows = [(key, row) for record in history for key, rows in record.tables.items() for row in rows]
    by_round = _of(indicator.tables, rows)
    at_last = _of(indicator.final_tables, [(key, row) for key, rows in final.items() for row in rows])
    for key, header, row in [*by_round, *at_last]:
        promise(
            len(row) == len(header),
            f"indicator '{name}': a row of {key} has {len(row)} values, its header {len(header)} ({', '.join(header)})",
        )
    promise(
        any(value is not None for _, value in numbers) or bool(by_round or at_last),
        f"indicator '{name}': it records nothing; turn it on: check_indicator('{name}', {{'indicators.KEY': ...}})",
    )


def _of(
    tables: Mapping[str, tuple[str, ...]], rows: Iterable[tuple[str, Any]]
) -> list[tuple[str, tuple[str, ...], tuple[Any, ...]]]:
    """Those rows that belong to some tables, each with the table's name and header."""
    return [(key, tables[key], row) for key, row in rows if key in tables]
