"""Where a test of this folder runs: on a GPU, or the same body on a CPU, with a recording in place of CUDA graphs."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fedbench import Simulation, TrialConfig
from fedbench.methods import METHODS
from fedbench.simulation.engines.graphed import Graphed
from tests.conftest import TINY, timeless
from tests.simulation.engines.recording import Recording
from tests.simulation.test_matrix import SMALL

NO_GPU = not torch.cuda.is_available()
on_gpu = [pytest.mark.cuda, pytest.mark.skipif(NO_GPU, reason="torch cannot use a GPU here")]


def both(cases: list[str], here: list[str]) -> pytest.MarkDecorator:
    """Parameters (device, case): every case on a GPU, some of them on the CPU, too, which shows that the test works."""
    assert set(here) <= set(cases)
    gpu = [pytest.param("cuda", case, marks=on_gpu, id=f"cuda-{case}") for case in cases]
    return pytest.mark.parametrize(("device", "case"), [*gpu, *(pytest.param("cpu", c, id=f"cpu-{c}") for c in here)])


def config_of(device: str, **settings: Any) -> TrialConfig:
    """A small run on a device; settings with dots as two underscores."""
    given = {key.replace("__", "."): value for key, value in {**SMALL, "rounds": 2, **settings}.items()}
    fields = METHODS.get(given.get("method.name", "fedavg")).Settings.model_fields
    few = {"method.f": 0.0, "method.epochs": 6}  # there are few clients; enough epochs for steps to be replayed
    few = {key: value for key, value in few.items() if key.removeprefix("method.") in fields}
    return TrialConfig(**{**TINY, "run.device": device, **few, **given})


def simulation_of(config: TrialConfig, engine: str) -> Simulation:
    """With captured steps, where they are asked for: on a CPU they are recorded."""
    if engine == "eager" or config.run.device != "cpu":
        run = config.run.model_copy(update={"engine": engine})
        simulation = Simulation(config.model_copy(update={"run": run}))
        assert simulation.engine.name == engine, simulation.engine.complaint
        return simulation
    simulation = Simulation(config)
    simulation.engine = Graphed(simulation.model, simulation.federation.train, Recording())
    return simulation


def finished(simulation: Simulation) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Everything that a run ends with, as bytes by name, and its records."""
    while not simulation.done:
        simulation.step()
    assert simulation.engine.trouble is None
    return bytes_of(simulation), timeless(simulation.state.history)


def bytes_of(simulation: Simulation) -> dict[str, bytes]:
    state = simulation.state
    tensors: dict[str, Tensor] = {"w": state.w, "buffers": state.buffers, **state.method}
    tensors |= {f"velocity {client}": velocity for client, velocity in enumerate(state.velocity or [])}
    tensors |= {f"statistics {client}": own for client, own in enumerate(state.client_buffers or [])}
    return {name: tensor.cpu().contiguous().numpy().tobytes() for name, tensor in tensors.items()}
