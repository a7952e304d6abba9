"""Captured steps against eager ones: the same bytes on one device, for every method, model and correction."""

from collections.abc import Iterator

import pytest
import torch

from fedbench import Simulation
from fedbench.config import RunConfig
from fedbench.data.samples import Samples
from fedbench.methods import Correction
from fedbench.models import FlatModel
from fedbench.simulation.compute import exact, seeded
from fedbench.simulation.engines import Engine, Start
from fedbench.simulation.engines.choice import self_check
from fedbench.simulation.engines.eager import Eager
from fedbench.simulation.engines.graphed import Graphed
from fedbench.simulation.local import Plan, Sgd
from tests.cuda.places import both, config_of, finished, on_gpu, simulation_of
from tests.simulation.engines import test_graphed as cpu
from tests.simulation.engines.recording import Recording
from tests.simulation.test_matrix import BUILT_IN_METHODS, BUILT_IN_MODELS

METHODS = [name for name in BUILT_IN_METHODS if name != "flower"]  # it computes with numpy
PRECISIONS = ["float32", "tf32", "bfloat16", "float64"]


@both(METHODS, ["fedavg", "feddyn", "fedlaw", "feddf"])
def test_methods_give_the_same_bytes(device: str, case: str) -> None:
    config = config_of(device, method__name=case)
    assert finished(simulation_of(config, "graphed")) == finished(simulation_of(config, "eager"))


@both(BUILT_IN_MODELS, ["mlp", "resnet8"])
def test_models_give_the_same_bytes(device: str, case: str) -> None:
    config = config_of(device, model=case, method__name="fedlaw", method__epochs=4, clients__epochs=1)
    assert finished(simulation_of(config, "graphed")) == finished(simulation_of(config, "eager"))


@both(PRECISIONS, ["bfloat16", "float64"])
def test_precisions_give_the_same_bytes(device: str, case: str) -> None:
    if case in ("tf32", "bfloat16") and device == "cuda" and torch.cuda.get_device_capability()[0] < 8:
        pytest.skip(f"this GPU has no {case}")
    config = config_of(device, precision=case, model="simple_cnn", method__name="server_ft", clients__epochs=1)
    assert finished(simulation_of(config, "graphed")) == finished(simulation_of(config, "eager"))


@pytest.fixture
def switches(device: str) -> Iterator[None]:
    with exact(RunConfig(), torch.device(device)):
        yield


@pytest.mark.usefixtures("switches")
@both(list(cpu.CORRECTIONS), list(cpu.CORRECTIONS))
def test_corrections_give_the_same_bytes(device: str, case: str) -> None:
    wanted, found = trained(Eager(*parts(device)), case), trained(graphed(device), case)
    assert [tensor.numpy().tobytes() for tensor in wanted] == [tensor.numpy().tobytes() for tensor in found]


@pytest.mark.usefixtures("switches")
@both(["self-check"], ["self-check"])
def test_the_self_check_passes(device: str, case: str) -> None:
    assert self_check(graphed(device), Sgd(torch.full((), 0.01, device=device), 0.9, 5e-4), 16) is None


@pytest.mark.parametrize("model", [pytest.param(name, marks=on_gpu) for name in BUILT_IN_MODELS])
def test_captured_steps_are_what_a_gpu_gets_by_itself(model: str) -> None:
    engine = Simulation(config_of("cuda", model=model)).engine
    assert (engine.name, engine.complaint) == ("graphed", None)


def parts(device: str) -> tuple[FlatModel, Samples]:
    """A net with batch norm and dropout, and images for it."""
    where, data = torch.device(device), cpu.images()
    module = cpu.net().module
    module.zero_grad(set_to_none=True)
    model = FlatModel(module, where, torch.float32)
    moved = Samples(data.images.to(where), data.labels.to(where), data.scale, data.shift, data.dtype)
    return model, moved


def graphed(device: str) -> Graphed:
    return Graphed(*parts(device), Recording() if device == "cpu" else None)


def trained(engine: Engine, correction: str) -> list[torch.Tensor]:
    """What four clients with data, starts, momenta, corrections and rates of their own end with, on the CPU."""
    w, buffers, results = engine.model.w.clone(), engine.model.buffers.clone(), []
    for client, size in enumerate((60, 16, 37, 37), start=1):
        start = Start(w + cpu.vector(w.cpu(), client + 50).to(w), buffers + client)
        velocity = cpu.vector(w.cpu(), client + 100).to(w)
        plan = cpu.plan(size, seed=client)
        moved = Plan(plan.full.to(w.device), plan.rest.to(w.device))
        sgd = Sgd(torch.full((), 0.1 * 0.9**client, device=w.device), 0.9, 5e-4)
        with seeded(client, w.device):
            loss = engine.train(moved, start, velocity, there(cpu.CORRECTIONS[correction](w.cpu(), client), w), sgd)
        seen = (engine.model.w, engine.model.buffers, velocity, loss)
        results += [tensor.detach().to("cpu", copy=True) for tensor in seen]
    assert engine.trouble is None
    return results


def there(correction: Correction | None, w: torch.Tensor) -> Correction | None:
    """A correction where the model is."""
    if correction is None:
        return None
    linear, anchor = (None if v is None else v.to(w) for v in (correction.linear, correction.anchor))
    return Correction(linear, correction.mu, anchor, correction.pull, correction.clip)
