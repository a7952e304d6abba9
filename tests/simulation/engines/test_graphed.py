"""Captured steps, with a recording in place of CUDA graphs and eager steps as the oracle."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedbench import Simulation, TrialConfig
from fedbench.config import RunConfig
from fedbench.data.samples import Samples
from fedbench.methods import METHODS, Correction
from fedbench.models import FlatModel
from fedbench.simulation.compute import exact, seeded
from fedbench.simulation.engines import CaptureFailed, Engine, Start
from fedbench.simulation.engines import graphed as module
from fedbench.simulation.engines.choice import self_check
from fedbench.simulation.engines.eager import Eager
from fedbench.simulation.engines.graphed import Graphed
from fedbench.simulation.local import Plan, Sgd, draw_plan
from tests.simulation.engines.recording import Exhausted, Failing, Lossy, Recording, Uncaptured

Make = Callable[..., TrialConfig]

CPU = torch.device("cpu")
RUNS = [
    ("fedavg", "average"),
    ("fedprox", "average"),
    ("feddyn", "local"),
    ("scaffold", "average"),
    ("fedlws", "local"),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with exact(RunConfig(), CPU):
        yield


@pytest.fixture(autouse=True)
def every_step_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that would be too rare in such short runs."""
    monkeypatch.setattr(module, "WORTH_USES", 1)


def net() -> FlatModel:
    """Convolution, batch norm and dropout: all that a step may write to, or draw from."""
    torch.manual_seed(0)
    body = (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3))
    return FlatModel(nn.Sequential(*body), CPU, torch.float32)


def images(n: int = 60) -> Samples:
    rng = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (n, 4, 4, 1), generator=rng, dtype=torch.uint8)
    return Samples(pixels, torch.randint(0, 3, (n,), generator=rng), 1 / 255, -0.5, torch.float32)


def rate(lr: float, momentum: float = 0.9, weight_decay: float = 5e-4) -> Sgd:
    return Sgd(torch.tensor(lr), momentum, weight_decay)


def plan(size: int, batch: int = 16, epochs: int = 2, seed: int = 0) -> Plan:
    return draw_plan(np.arange(60)[:size], epochs, batch, np.random.default_rng(seed), CPU)


def vector(like: Tensor, seed: int) -> Tensor:
    return 0.1 * torch.randn(like.shape, generator=torch.Generator().manual_seed(seed), dtype=like.dtype)


CORRECTIONS: dict[str, Callable[[Tensor, int], Correction | None]] = {
    "nothing": lambda w, seed: None,
    "an empty one": lambda w, seed: Correction(),
    "linear": lambda w, seed: Correction(linear=vector(w, seed)),
    "mu": lambda w, seed: Correction(mu=0.3, anchor=vector(w, seed)),
    "another mu each time": lambda w, seed: Correction(mu=0.1 * seed, anchor=vector(w, seed)),
    "pull": lambda w, seed: Correction(pull=0.2, anchor=vector(w, seed)),
    "clip": lambda w, seed: Correction(clip=0.05),
    "all": lambda w, seed: Correction(vector(w, seed), 0.3, vector(w, seed + 9), 0.2, 0.5),
    "now and then": lambda w, seed: Correction(linear=vector(w, seed)) if seed % 2 else None,
}


def run(engine: Engine, correction: Callable[[Tensor, int], Correction | None]) -> list[Tensor]:
    """Four clients with data, starts, momenta, corrections, learning rates and chance of their own."""
    w, buffers, results = engine.model.w.clone(), engine.model.buffers.clone(), []
    for client, size in enumerate((60, 16, 37, 37), start=1):
        start = Start(w + vector(w, client + 50), buffers + client)
        velocity = vector(w, client + 100)
        with seeded(client, CPU):
            sgd = rate(0.1 * 0.9**client)
            loss = engine.train(plan(size, seed=client), start, velocity, correction(w, client), sgd)
            results += [engine.model.w.clone(), engine.model.buffers.clone(), velocity, loss, torch.rand(1)]
    return results


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", CORRECTIONS)
def test_replayed_steps_give_the_bytes_of_eager_steps(name: str) -> None:
    data, capture = images(), Recording()
    wanted = run(Eager(net(), data), CORRECTIONS[name])
    assert same(wanted, run(Graphed(net(), data, capture), CORRECTIONS[name]))
    assert sum(graph.replays for graph in capture.graphs) == 2 * (4 + 1 + 3 + 3), "a replay for every batch"


def test_uncaptured_steps_over_held_tensors_give_the_bytes_of_eager_steps() -> None:
    data = images()
    wanted = run(Eager(net(), data), CORRECTIONS["all"])
    assert same(wanted, run(Graphed(net(), data, Uncaptured()), CORRECTIONS["all"]))


def test_there_is_one_graph_for_each_batch_size_replayed_along_the_plan() -> None:
    capture = Recording()
    run(Graphed(net(), images(), capture), CORRECTIONS["nothing"])
    full, rest_of_60, rest_of_37 = 0, 1, 2
    first = [full, full, full, rest_of_60] * 2
    assert capture.log == first + [full] * 2 + [full, full, rest_of_37] * 4


def test_numbers_that_a_graph_has_built_in_get_a_graph_of_their_own() -> None:
    capture = Recording()
    engine = Graphed(net(), images(), capture)
    start, anchor = Start(engine.model.w.clone(), engine.model.buffers.clone()), vector(engine.model.w, 1)
    changes: list[tuple[Correction | None, Sgd]] = [
        (None, rate(0.1)),
        (None, rate(0.2)),  # a learning rate is copied in
        (Correction(mu=0.1, anchor=anchor), rate(0.1)),
        (Correction(mu=0.1, anchor=2 * anchor), rate(0.1)),  # and so is an anchor
        (Correction(mu=0.2, anchor=anchor), rate(0.1)),
        (Correction(mu=0.2, anchor=anchor, clip=1.0), rate(0.1)),
        (None, rate(0.1, momentum=0.5)),
        (None, rate(0.1, weight_decay=0.0)),
    ]
    for correction, sgd in changes:
        engine.train(plan(16, epochs=1), start, torch.zeros_like(start.w), correction, sgd)
    assert capture.log == [0, 0, 1, 1, 2, 3, 4, 5]


def test_graphs_without_end_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GRAPHS", 2)
    data, capture = images(), Recording()
    wanted = run(Eager(net(), data), CORRECTIONS["another mu each time"])
    assert same(wanted, run(Graphed(net(), data, capture), CORRECTIONS["another mu each time"]))
    assert len(capture.graphs) == 2


def test_the_rest_of_an_epoch_is_captured_once_it_has_occurred_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH_USES", 5)
    data, capture = images(), Recording()
    wanted = run(Eager(net(), data), CORRECTIONS["linear"])  # rests of 12 occur twice, of 5 four times
    assert same(wanted, run(Graphed(net(), data, capture), CORRECTIONS["linear"]))
    assert len(capture.graphs) == 1, "of full batches alone"
    engine = Graphed(net(), data, capture := Recording())
    start = Start(engine.model.w.clone(), engine.model.buffers.clone())
    engine.train(plan(37, epochs=7), start, torch.zeros_like(start.w), None, rate(0.1))
    full, rest = 0, 1
    assert capture.log == [full, full] * 4 + [full, full, rest] * 3, "eager in the first four epochs"


def test_the_self_check_captures_the_rest_of_an_epoch_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    engine = Graphed(net(), images(), capture := Recording())
    assert self_check(engine, rate(0.01), 16) is None
    assert {kind.batch for kind in engine.steps} == {16, 8}
    assert len(capture.graphs) == 4, "two sizes, with a correction and without"
    assert not engine.thorough


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("CUDA error: out of memory")]
)
@pytest.mark.parametrize("hidden", [False, True])
def test_used_up_memory_ends_the_run_and_does_not_mean_that_steps_cannot_be_captured(
    error: RuntimeError, hidden: bool
) -> None:
    engine = Graphed(net(), images(), Exhausted(error, hidden=hidden))
    with pytest.raises(RuntimeError, match="out of memory"):
        run(engine, CORRECTIONS["nothing"])
    assert (engine.trouble, engine.complaint) == (None, None)
    with pytest.raises(RuntimeError, match="out of memory"):
        self_check(engine, rate(0.01), 16)


def test_neither_a_start_nor_a_correction_is_written_to() -> None:
    engine = Graphed(net(), images(), Recording())
    start = Start(engine.model.w.clone(), engine.model.buffers.clone())
    correction = CORRECTIONS["all"](start.w, 1)
    assert correction is not None and correction.linear is not None and correction.anchor is not None
    given = [start.w, start.buffers, correction.linear, correction.anchor]
    before = [tensor.clone() for tensor in given]
    engine.train(plan(40), start, torch.zeros_like(start.w), correction, rate(0.1))
    assert same(given, before)


@pytest.mark.parametrize("at", [1, 2])
def test_a_capture_that_fails_costs_a_line_and_no_byte(at: int) -> None:
    data = images()
    wanted = run(Eager(net(), data), CORRECTIONS["all"])
    engine = Graphed(net(), data, Failing(at))
    with pytest.warns(CaptureFailed) as caught:
        found = run(engine, CORRECTIONS["all"])
    assert same(wanted, found)
    assert [str(warning.message) for warning in caught] == [
        "run.engine = graphed: a step cannot be captured (operation not permitted when stream is capturing); "
        "going on without captured steps"
    ]
    assert engine.trouble


def test_the_self_check_passes_what_is_right_and_leaves_the_model_alone() -> None:
    engine = Graphed(net(), images(), Recording())
    before = [engine.model.w.clone(), engine.model.buffers.clone()]
    assert self_check(engine, rate(0.01), 16) is None
    assert same([engine.model.w, engine.model.buffers], before)


def test_the_self_check_reports_a_capture_that_fails() -> None:
    engine = Graphed(net(), images(), Failing(2))
    with pytest.warns(UserWarning):
        assert "cannot be captured" in str(self_check(engine, rate(0.01), 16))


def test_the_self_check_finds_other_bytes() -> None:
    engine = Graphed(net(), images(), Lossy())
    assert self_check(engine, rate(0.01), 16) == "not the same loss as with eager steps"


def simulated(config: TrialConfig, capture: Recording | None) -> tuple[list[Tensor], list[Any]]:
    """The models of two rounds, and what was recorded of them."""
    simulation = Simulation(config)
    if capture:
        simulation.engine = Graphed(simulation.model, simulation.federation.train, capture)
    tensors, numbers = [], []
    for _ in range(2):
        record = simulation.step()
        tensors += [simulation.state.w, simulation.state.buffers, *(simulation.state.velocity or [])]
        numbers += [record.train_loss, record.test_loss, record.lambda_, record.gamma]
    return tensors, numbers


@pytest.mark.parametrize(("method", "bn"), RUNS)
def test_a_run_is_the_same_with_replayed_steps(tiny: Make, method: str, bn: str) -> None:
    config = tiny(method__name=method, model="resnet8", bn=bn, data__train_size=90, data__test_size=60)
    wanted, numbers = simulated(config, None)
    capture = Recording()
    found, again = simulated(config, capture)
    assert same(wanted, found)
    assert numbers == again
    assert len(capture.log) > len(capture.graphs)


def test_every_method_with_a_correction_is_among_them() -> None:
    correcting = {
        name for name, kind in METHODS.items() if METHODS.version(name) is None and "correction" in vars(kind)
    }
    assert correcting - {"flower"} == {method for method, _ in RUNS} - {"fedavg"}  # that one takes others' strategies
