"""Nothing in local training, a server epoch or evaluation waits for the device: for every method, model and engine."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fedbench import Simulation, TrialConfig
from fedbench.methods import METHODS
from fedbench.simulation import evaluation
from fedbench.simulation.compute import exact
from fedbench.simulation.engines.graphed import Graphed
from tests.simulation.engines.recording import Uncaptured
from tests.simulation.syncs import Syncs
from tests.simulation.test_matrix import BUILT_IN_METHODS, BUILT_IN_MODELS, SMALL, SMALLEST

Make = Callable[..., TrialConfig]

CORRECTING = [name for name in BUILT_IN_METHODS if "correction" in vars(METHODS.get(name)) and name != "flower"]
ENGINES = ["eager", "graphed"]


def config_of(tiny: Make, method: str, model: str) -> TrialConfig:
    size = SMALL if model == "mlp" else SMALLEST
    settings: dict[str, Any] = {**size, "model": model, "method__name": method, "clients__epochs": 1}
    if "f" in METHODS.get(method).Settings.model_fields:
        settings["method__f"] = 0.0  # there are few clients
    return tiny(**settings)


def syncs_of_training(simulation: Simulation, engine: str) -> list[str]:
    """What waits while a cohort is trained; captured steps are run as they would be captured."""
    with_engine(simulation, engine)
    syncs = Syncs()
    with exact(simulation.config.run, simulation.device), syncs:
        simulation.train_cohort(simulation.state.round + 1, (0, 1))
    return syncs.places


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", BUILT_IN_METHODS)
def test_no_method_waits_in_local_training(tiny: Make, method: str, engine: str) -> None:
    if method == "flower":
        pytest.importorskip("flwr", reason="flwr is not installed: pip install -e '.[flower]'")
    simulation = Simulation(config_of(tiny, method, "mlp"))
    if method in CORRECTING:
        simulation.step()  # from then on there is something to correct
    assert syncs_of_training(simulation, engine) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", BUILT_IN_MODELS)
def test_no_model_waits_in_local_training(tiny: Make, model: str, engine: str) -> None:
    assert syncs_of_training(Simulation(config_of(tiny, "fedavg", model)), engine) == []


HANDFUL = 14  # waits in a round of any length: losses, checks, indicators, scores
# What these methods decide with, they decide on the CPU: one copy of [m, m] numbers gets there, and no more waits.
ON_HOST = {"bulyan", "centered_clipping", "geometric_median", "krum"}
BY_CLIENT = {"greedy_soup"}  # whether a client is taken has to be known before the next one is tried


def with_engine(simulation: Simulation, engine: str) -> Simulation:
    if engine == "graphed":
        simulation.engine = Graphed(simulation.model, simulation.federation.train, Uncaptured())
    return simulation


def syncs_of_a_round(simulation: Simulation) -> list[str]:
    """What waits in the second round."""
    simulation.step()
    with Syncs() as syncs:
        simulation.step()
    return syncs.places


@pytest.mark.parametrize("method", [name for name in BUILT_IN_METHODS if name != "flower"])
def test_a_round_waits_a_handful_of_times(tiny: Make, method: str) -> None:
    places = syncs_of_a_round(Simulation(config_of(tiny, method, "mlp")))
    if method in ON_HOST:
        places = [place for place in places if "/methods/" not in place or place.startswith("cpu at")]
    most = HANDFUL + (6 if method in BY_CLIENT else 0)  # there are three clients
    assert len(places) <= most, "\n".join(places)


LEARNING = [name for name in BUILT_IN_METHODS if "epochs" in METHODS.get(name).Settings.model_fields]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["mlp", "resnet8"])
@pytest.mark.parametrize("method", LEARNING)
def test_no_server_epoch_waits(tiny: Make, method: str, model: str, engine: str) -> None:
    found = []
    for epochs in (2, 6):
        settings = {**SMALL, "model": model, "method__name": method, "method__epochs": epochs, "clients__epochs": 1}
        found.append(syncs_of_a_round(with_engine(Simulation(tiny(**settings)), engine)))
    assert [place.split(" at ")[0] for place in found[0]] == [place.split(" at ")[0] for place in found[1]]


@pytest.mark.parametrize("model", BUILT_IN_MODELS)
def test_scoring_a_model_waits_once_however_many_batches_there_are(
    tiny: Make, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(config_of(tiny, "fedavg", model))
    monkeypatch.setattr(evaluation, "BATCH", 5)
    state = simulation.state
    with Syncs() as syncs:
        evaluation.evaluate(simulation.model, state.w, state.buffers, simulation.federation.test)
    assert len(syncs.places) == 1
    assert "tolist" in syncs.places[0]


WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "a number": lambda x: x.sum().item(),
    "a branch": lambda x: 1 if x.sum() > 0 else 2,
    "a list": lambda x: [float(value) for value in x],
    "a mask": lambda x: x[x > 0],
    "a write through a mask": lambda x: x.index_put_((x > 0,), torch.tensor(0.0)),
    "places": lambda x: x.nonzero(),
    "counts": lambda x: torch.bincount(x.long()),
    "a comparison": lambda x: torch.equal(x, x + 1),
    "all at once": lambda x: x.tolist(),
    "a copy": lambda x: x.cpu(),
    "a copy by name": lambda x: x.to("cpu", torch.float64),
}


@pytest.mark.parametrize("kind", WAITS)
def test_what_would_wait_is_counted_with_its_place(kind: str) -> None:
    with Syncs() as syncs:
        WAITS[kind](torch.arange(4.0))
    assert syncs.places
    assert "test_syncs.py, line" in syncs.places[0]
