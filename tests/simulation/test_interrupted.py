"""A step is all or nothing: Ctrl-C in the middle of one, in a notebook say, leaves no trace in the run."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn

import fedbench
from fedbench import Simulation, TrialConfig, UserError
from fedbench.methods import METHODS
from fedbench.models import MODELS, register_model
from fedbench.simulation.compute import exact
from tests.conftest import timeless

Make = Callable[..., TrialConfig]
Line = tuple[str, int]
HOME = str(Path(fedbench.__file__).parent)
EVERYTHING_LIVES_ON = {"method__name": "feddyn", "model": "interrupted_bn", "bn": "proxy"}


def config(make: Make) -> TrialConfig:
    if "interrupted_bn" not in MODELS:
        register_model("interrupted_bn", version="1")(
            lambda shape, n: nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.BatchNorm1d(8), nn.Linear(8, n))
        )
    small = {"clients__count": 3, "clients__participation": 0.7, "data__train_size": 60, "data__test_size": 40}
    return make(**small, **EVERYTHING_LIVES_ON, clients__epochs=1, rounds=4)


def traced(step: Callable[[], object], hear: Callable[[Line], None]) -> None:
    """Take a step; `hear` is told of every line of fedbench just before it runs."""

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line":
            hear((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    finally:
        sys.settrace(before)


def interrupted(simulation: Simulation, line: Line, count: int) -> None:
    """Ctrl-C when `line` is about to run for the `count`-th time in a step."""
    seen = 0

    def hear(here: Line) -> None:
        nonlocal seen
        seen += here == line
        if here == line and seen == count:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        traced(simulation.step, hear)


def content(simulation: Simulation) -> list[Any]:
    """Everything that lives on, but for the seconds."""
    state = simulation.state
    kept = [row for rows in (state.velocity, state.client_buffers) if rows is not None for row in rows]
    tensors = [state.w, state.buffers, *kept, *(state.method[name] for name in sorted(state.method))]
    return [state.round, timeless(state.history), [tensor.tolist() for tensor in tensors]]


def test_a_step_that_was_interrupted_at_any_line_is_as_if_it_had_not_been(tiny: Make) -> None:
    whole, simulation = Simulation(config(tiny)), Simulation(config(tiny))
    whole.step()
    simulation.step()
    lines: list[Line] = []
    traced(whole.step, lines.append)
    with exact(whole.config.run, whole.device):  # an interrupt may leave torch's switches as they are in a round
        for line in dict.fromkeys(lines):
            interrupted(simulation, line, lines.count(line))  # the last time: as much as possible was done before
    assert len(set(lines)) > 100
    simulation.step()
    assert content(simulation) == content(whole)
    assert content_after(simulation) == content_after(whole)


def content_after(simulation: Simulation) -> list[Any]:
    simulation.step()
    return content(simulation)


def test_a_step_that_fails_leaves_the_run_where_it_was(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, simulation = Simulation(tiny()), Simulation(tiny())
    whole.step()
    with monkeypatch.context() as broken:
        broken.setattr(METHODS.get("fedavg"), "aggregate", lambda *arguments: torch.zeros(3))
        with pytest.raises(UserError, match="must return an Update"):
            simulation.step()
    assert simulation.state.round == 0
    simulation.step()
    assert content(simulation) == content(whole)
