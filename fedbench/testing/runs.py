"""Running, stopping and comparing runs."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedbench.base.errors import UserError
from fedbench.config import TrialConfig
from fedbench.simulation import Record, Simulation, checkpoint


def promise(kept: bool, sentence: str) -> None:
    """Raise AssertionError with a sentence unless a promise is kept."""
    if not kept:
        raise AssertionError(sentence)


@contextmanager
def said_as_broken_promise() -> Iterator[None]:
    """Raise an error of a run as an AssertionError: a run that is refused breaks a promise, too."""
    try:
        yield
    except UserError as error:
        raise AssertionError(str(error)) from error


def run(config: TrialConfig, data_dir: Path | None = None) -> Simulation:
    """Run a config to its end."""
    with said_as_broken_promise():
        simulation = Simulation(config, data_dir)
    return finished(simulation)


def finished(simulation: Simulation) -> Simulation:
    """Run to the end from where a simulation stands; it must not diverge."""
    config = simulation.config
    what = f"method '{config.method.name}', model '{config.model}', {config.precision}"
    with said_as_broken_promise():
        while not simulation.done:
            diverged = simulation.step().diverged
            promise(not diverged, f"{what}: the run does not stay finite ({diverged})")
    return simulation


def resumed(config: TrialConfig, rounds: int) -> Simulation:
    """Return a run that was stopped after some rounds and resumed from its checkpoint, as in another process."""
    with tempfile.TemporaryDirectory() as folder, said_as_broken_promise():
        first = Simulation(config)
        for _ in range(rounds):
            first.step()
        checkpoint.save(first, Path(folder))
        second = Simulation(config)
        complaints = checkpoint.restore(second, Path(folder))
        promise(not complaints, f"method '{config.method.name}': its state cannot be read back from a checkpoint")
    return finished(second)


def same(one: Simulation, other: Simulation) -> bool:
    """Return whether two runs have the same models, states and records, to the byte."""
    records = [[_timeless(record) for record in run.state.history] for run in (one, other)]
    tensors = [_tensors(vars(run.state)) for run in (one, other)]
    return records[0] == records[1] and all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))


def _tensors(value: Any) -> list[Tensor]:
    """All tensors within mappings and lists."""
    if isinstance(value, Mapping):
        return [tensor for key in sorted(value) for tensor in _tensors(value[key])]
    if isinstance(value, list):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if isinstance(value, Tensor) else []


def _timeless(record: Record) -> Mapping[str, Any]:
    """A record without its time columns."""
    return {key: value for key, value in record.as_dict().items() if not key.startswith("seconds")}
