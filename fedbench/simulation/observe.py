"""Calls all indicators after every round and at the end of a run, and validates what they return."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fedbench.base.errors import UserError, describe_error
from fedbench.base.plugins import blame
from fedbench.data.samples import Samples
from fedbench.indicators import INDICATORS, Indicator, RoundContext, RunContext
from fedbench.indicators.base import Observation, Rows
from fedbench.methods import Cohort, Update
from fedbench.simulation.compute import exact
from fedbench.simulation.evaluation import predictions
from fedbench.simulation.record import Record

if TYPE_CHECKING:
    from fedbench.simulation.loop import Simulation


def observe(record: Record, simulation: "Simulation", cohort: Cohort, update: Update, buffers: Tensor) -> Record:
    """Add to a record what the indicators record of the round, whose new model is update.w [P] with `buffers` [Q]."""
    context = RoundContext(**_context(simulation, record.round, update.w, buffers), cohort=cohort, update=update)
    values, tables = dict(record.indicators), dict(record.tables)
    for _, indicator in INDICATORS.items():
        with _named(indicator, "observe"):
            seen = indicator.observe(simulation.config.indicators, context)
        if problem := _problem(indicator, seen):
            raise UserError(f"indicator '{indicator.name}': observe {problem}")
        _check(indicator, "column", seen.values, {column.name for column in indicator.columns()})
        _check(indicator, "table", seen.tables, indicator.tables)
        values |= seen.values
        tables |= seen.tables
    if extra := sorted(set(update.metrics) - set(simulation.method.announced())):
        method = simulation.config.method.name
        raise UserError(f"method '{method}' records '{extra[0]}' without declaring it in its metrics")
    values |= {name: float(value) for name, value in update.metrics.items()}
    weights = () if update.lambda_ is None else tuple(update.lambda_.tolist())
    return replace(record, lambda_=weights, indicators=values, tables=tables)


def final_tables(simulation: "Simulation") -> dict[str, tuple[tuple[str, ...], Rows]]:
    """The tables that indicators compute from the final model, as (columns, rows) by name."""
    tables, state = dict[str, tuple[tuple[str, ...], Rows]](), simulation.state
    with exact(simulation.config.run, simulation.device):
        for _, indicator in INDICATORS.items():
            context = RunContext(**_context(simulation, state.round, state.model, state.buffers))
            with _named(indicator, "conclude"):
                seen = indicator.conclude(simulation.config.indicators, context)
            if problem := _table_problem(seen, indicator.final_tables):
                raise UserError(f"indicator '{indicator.name}': conclude {problem}")
            _check(indicator, "final table", seen, indicator.final_tables)
            tables |= {name: (indicator.final_tables[name], rows) for name, rows in seen.items()}
    return tables


def _context(simulation: "Simulation", round_: int, w: Tensor, buffers: Tensor) -> dict[str, Any]:
    """The fields of a `RunContext` for a model w [P] with running statistics [Q]."""
    config, federation = simulation.config, simulation.federation

    def predict(w: Tensor, buffers: Tensor, samples: Samples = federation.test) -> Iterator[tuple[Tensor, Tensor]]:
        return predictions(simulation.model, w, buffers, samples)

    return {
        "round": round_,
        "rounds": config.rounds,
        "seed": config.seed,
        "model": simulation.model,
        "w": w,
        "buffers": buffers,
        "federation": federation,
        "predict": predict,
        "own_models": simulation.state.own_models,
    }


@contextmanager
def _named(indicator: Indicator[Any], what: str) -> Iterator[None]:
    """Convert an indicator's exceptions to a UserError that names it, except for errors of the file system."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        at = f"; {where}" if (where := blame(error)) else ""
        raise UserError(f"indicator '{indicator.name}': {what} failed ({describe_error(error)}{at})") from error


def _problem(indicator: Indicator[Any], seen: Any) -> str | None:
    """A message about a wrong type in an observation or a wrong shape of its tables, None if it is valid."""
    if not isinstance(seen, Observation):
        return f"must return an Observation, returned {type(seen).__name__}"
    if not isinstance(seen.values, Mapping):
        return f"must give numbers by column, gave {type(seen.values).__name__}"
    for name, value in seen.values.items():
        if value is not None and not isinstance(value, Real):
            return f"gave a {type(value).__name__} for {name}; must be a number, or None where there is none"
    return _table_problem(seen.tables, indicator.tables)


def _table_problem(tables: Any, headers: Mapping[str, tuple[str, ...]]) -> str | None:
    """A message if tables are not rows by name, or if a row has not as many values as its header; else None."""
    if not isinstance(tables, Mapping):
        return f"must give rows by table, such as {{'name': [(1, 2)]}}, gave {type(tables).__name__}"
    for name, rows in tables.items():
        header = headers.get(name, ())
        if not isinstance(rows, Sized) or not isinstance(rows, Iterable) or isinstance(rows, str):
            return f"gave {type(rows).__name__} for {name}; must be a list of rows"
        for row in rows if header else ():
            if not isinstance(row, Sized) or isinstance(row, str):
                return f"gave {type(row).__name__} for a row of {name}; must be a tuple of {', '.join(header)}"
            if len(row) != len(header):
                return f"gave {len(row)} values for a row of {name}; must be {len(header)} ({', '.join(header)})"
    return None


def _check(indicator: Indicator[Any], what: str, seen: Any, declared: Any) -> None:
    """Raise UserError if an indicator records a column or table that it does not declare."""
    if extra := sorted(set(seen) - set(declared)):
        raise UserError(f"indicator '{indicator.name}' records the {what} '{extra[0]}' without declaring it")
