"""The server's repeated steps, replayed from a recording, with steps as they are as the oracle."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fedbench import Simulation, TrialConfig
from fedbench.simulation.engines.capture import WARM_UP, Repeated
from fedbench.simulation.engines.graphed import Graphed
from tests.simulation.engines.recording import Exhausted, Failing, Recording

Make = Callable[..., TrialConfig]

SERVERS: dict[str, dict[str, Any]] = {
    "fedlaw": {"method__epochs": 5},
    "fedlaw, quad": {"method__epochs": 5, "method__base": "quad", "method__steps": 13},
    "adaptive_gws": {"method__epochs": 5},
    "attentive_law": {"method__epochs": 9, "method__swa": True},
    "fedlaw_swa": {"method__epochs": 16},
    "feddf": {"method__epochs": 5},
    "fedbe": {"method__epochs": 5, "method__samples": 2},
    "server_ft": {"method__epochs": 5},
    "server_ft, adam kept": {"method__epochs": 5, "method__optimizer_state": "keep"},
    "server_ft, sgd kept": {"method__epochs": 5, "method__optimizer": "sgd", "method__optimizer_state": "keep"},
    "fltrust": {"method__steps": 15},
}
BATCHES = {"proxy__size": 20, "method__batch_size": 8}  # two full ones and a rest of four in an epoch


def config_of(tiny: Make, name: str, model: str) -> TrialConfig:
    small = {"data__train_size": 60, "data__test_size": 60, "clients__epochs": 1, "rounds": 2}
    return tiny(model=model, method__name=name.partition(",")[0], **SERVERS[name], **BATCHES, **small)


def rounds(config: TrialConfig, capture: Recording | None) -> tuple[list[Tensor], list[Any]]:
    """The state after every round, and what was recorded of it; local steps are eager."""
    simulation = Simulation(config)
    if capture:
        server = Graphed(simulation.model, simulation.federation.train, capture)
        simulation.engine.repeated = server.repeated  # type: ignore[method-assign]
    tensors, numbers = [], []
    while not simulation.done:
        record = simulation.step()
        tensors += [simulation.state.w, simulation.state.buffers, *simulation.state.method.values()]
        numbers += [record.train_loss, record.test_loss, record.lambda_, record.gamma, record.indicators]
    return tensors, numbers


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("model", ["mlp", "resnet8"])
@pytest.mark.parametrize("name", SERVERS)
def test_replayed_server_steps_give_the_bytes_of_steps_as_they_are(tiny: Make, name: str, model: str) -> None:
    config, capture = config_of(tiny, name, model), Recording()
    wanted, numbers = rounds(config, None)
    found, again = rounds(config, capture)
    assert same(wanted, found)
    assert numbers == again
    assert capture.log, "some were replayed"


def test_a_graph_is_made_for_each_shape_once_it_is_warm_and_anew_in_every_round(tiny: Make) -> None:
    capture = Recording()
    rounds(config_of(tiny, "server_ft", "mlp"), capture)
    full, rest = 0, 1
    # epoch 1: 8 8 4 (all warm up), epoch 2: 8 warms up the third time, the next is replayed, ...
    one_round = [full] + [full, full] + [full, full, rest] * 2
    assert capture.log == one_round + [2 + graph for graph in one_round]
    assert capture.warmed == 2 * 2 * WARM_UP


def test_few_steps_are_run_as_they_are(tiny: Make) -> None:
    capture = Recording()
    rounds(tiny(method__name="server_ft", rounds=1), capture)  # two epochs of one batch
    assert not capture.graphs


@pytest.mark.parametrize("at", [1, 2])
def test_a_capture_that_fails_costs_a_line_and_no_byte(tiny: Make, at: int) -> None:
    config = config_of(tiny, "fedlaw", "resnet8")
    wanted, numbers = rounds(config, None)
    with pytest.warns(UserWarning) as caught:
        found, again = rounds(config, Failing(at))
    assert same(wanted, found)
    assert numbers == again
    assert {str(warning.message) for warning in caught} == {
        "run.engine = graphed: a step cannot be captured (operation not permitted when stream is capturing); "
        "going on without captured steps"
    }


def test_used_up_memory_ends_the_run(tiny: Make) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        rounds(config_of(tiny, "fedlaw", "mlp"), Exhausted(torch.OutOfMemoryError("CUDA out of memory"), hidden=True))


def test_arguments_are_copied_into_tensors_that_stay() -> None:
    total, seen = torch.zeros(3), list[int]()

    def step(more: Tensor, factor: Tensor) -> None:
        seen.append(more.data_ptr())
        total.add_(more * factor)

    def refused(error: RuntimeError) -> None:
        raise error

    repeated, wanted = Repeated(step, Recording(), refused), torch.zeros(3)
    for number in range(1, 10):
        more, factor = torch.full((3,), float(number)), torch.tensor(0.5 * number)
        repeated(more, factor)
        wanted += more * factor
        assert torch.equal(total, wanted)
    assert len(seen) == WARM_UP + 1, "then Python is not run again"


def test_a_warning_is_not_repeated_for_every_step(tiny: Make) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rounds(config_of(tiny, "fedlaw", "mlp"), Failing(1))
    assert len(caught) <= 2, "one for each shape of the round in which it came up, none afterwards"
