"""Which engine a run gets."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedbench import ConfigError, Simulation, TrialConfig, UserError
from fedbench.data.samples import Samples
from fedbench.methods import Correction
from fedbench.models import FlatModel
from fedbench.simulation.engines import CaptureFailed, Engine, Start, choice, register_engine
from fedbench.simulation.engines.eager import Eager
from fedbench.simulation.engines.graphed import Graphed
from fedbench.simulation.local import Plan, Sgd
from tests.simulation.engines.recording import Failing

Make = Callable[..., TrialConfig]


@pytest.fixture
def own_engines(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Engines of a test's own, forgotten after it; gives the list of clients' trainings by `counting`."""
    log: list[str] = []
    monkeypatch.setattr(choice, "CHECKED", {})

    class Counting(Eager):
        def train(self, plan: Plan, start: Start, velocity: Tensor, correction: Correction | None, sgd: Sgd) -> Tensor:
            log.append(self.name)
            return super().train(plan, start, velocity, correction, sgd)

    class Off(Eager):
        def train(self, plan: Plan, start: Start, velocity: Tensor, correction: Correction | None, sgd: Sgd) -> Tensor:
            loss = super().train(plan, start, velocity, correction, sgd)
            self.model.w[-1] += 1e-6
            return loss

    class Broken(Eager):
        def train(self, plan: Plan, start: Start, velocity: Tensor, correction: Correction | None, sgd: Sgd) -> Tensor:
            self.model.w.fill_(7)
            raise ValueError("no such kernel\nwith details")

    class Full(Eager):
        def train(self, plan: Plan, start: Start, velocity: Tensor, correction: Correction | None, sgd: Sgd) -> Tensor:
            if not log:
                log.append(self.name)
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().train(plan, start, velocity, correction, sgd)

    for name, kind in {"counting": Counting, "off": Off, "broken": Broken, "full": Full}.items():
        register_engine(name)(type(name, (kind,), {}))
    return log


def chosen(config: TrialConfig) -> Engine:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Simulation(config).engine


@pytest.mark.parametrize("name", ["auto", "eager"])
def test_without_a_gpu_steps_are_eager(tiny: Make, name: str) -> None:
    assert type(chosen(tiny(run__engine=name, run__device="cpu"))) is Eager


def test_captured_steps_without_a_gpu_are_refused_in_one_line(tiny: Make) -> None:
    message = "run.engine = graphed: captured steps need a GPU, the device is cpu; use run.engine=auto"
    with pytest.raises(UserError, match=message):
        Simulation(tiny(run__engine="graphed", run__device="cpu"))


def test_an_unknown_engine_is_one_line_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"run\.engine: unknown engine 'graphd'; did you mean 'graphed'"):
        TrialConfig(**{"run.engine": "graphd"})


def test_auto_is_no_engines_name() -> None:
    with pytest.raises(ConfigError, match="engine 'auto': leaves the choice to the device"):
        register_engine("auto")


def test_an_engine_of_ones_own_trains_every_client_and_is_checked_once(tiny: Make, own_engines: list[str]) -> None:
    simulation = Simulation(tiny(run__engine="counting"))
    assert simulation.engine.name == "counting"
    assert len(own_engines) == 2, "the self-check's two clients"
    simulation.step()
    assert len(own_engines) == 2 + 5
    Simulation(tiny(run__engine="counting", seed=9))
    assert len(own_engines) == 2 + 5
    Simulation(tiny(run__engine="counting", precision="float64"))
    assert len(own_engines) == 2 + 5 + 2


@pytest.mark.parametrize(
    ("name", "reason"),
    [("off", "not the same weights as with eager steps"), ("broken", "ValueError: no such kernel")],
)
def test_an_engine_that_fails_its_check_costs_a_line_and_the_run_is_eager(
    tiny: Make, own_engines: list[str], name: str, reason: str
) -> None:
    wanted = Simulation(tiny())
    for _ in range(2):  # the second time, from what is known already
        with pytest.warns(UserWarning) as caught:
            simulation = Simulation(tiny(run__engine=name))
        assert [str(warning.message) for warning in caught] == [f"run.engine = {name}: {reason}; using eager"]
        assert type(simulation.engine) is Eager
        assert torch.equal(simulation.model.w, wanted.model.w)
    wanted.step()
    simulation.step()
    assert torch.equal(simulation.state.w, wanted.state.w)


def test_used_up_memory_ends_the_run_and_is_not_remembered(tiny: Make, own_engines: list[str]) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        Simulation(tiny(run__engine="full"))
    assert chosen(tiny(run__engine="full")).name == "full"


def test_a_failed_capture_can_be_told_from_other_complaints(tiny: Make, own_engines: list[str]) -> None:
    class Captured(Graphed):
        def __init__(self, model: FlatModel, samples: Samples) -> None:
            super().__init__(model, samples, Failing(2))

        @classmethod
        def refuses(cls, device: torch.device) -> str | None:
            return None

    register_engine("captured")(Captured)
    with pytest.warns(CaptureFailed, match="cannot be captured"):
        simulation = Simulation(tiny(run__engine="captured"))
    assert type(simulation.engine) is Eager
    with pytest.warns(UserWarning) as caught:
        Simulation(tiny(run__engine="off"))
    assert caught[0].category is UserWarning
