"""What is computed in which precision: passes through a model in less, all that is kept in float32 or float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedbench import Simulation, TrialConfig, UserError, simulate
from fedbench.models import FlatModel, initial
from fedbench.models.precision import PRECISIONS, Precision
from fedbench.simulation.evaluation import predictions
from tests.commands import trial as trial

Make = Callable[..., TrialConfig]

CPU = torch.device("cpu")
MODELS = ["mlp", "lenet5", "simple_cnn", "alexnet", "resnet8"]  # deeper ones turn rounding into noise at the start
BFLOAT16 = PRECISIONS["bfloat16"]
RUNS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "resnet8": {"model": "resnet8", "data__train_size": 90, "data__test_size": 60},
    "fedlaw": {"method__name": "fedlaw", "method__epochs": 5},
    "feddf": {"method__name": "feddf", "method__epochs": 5},
    "server_ft": {"method__name": "server_ft"},
    "fltrust": {"method__name": "fltrust"},
}


def passes(name: str, precision: Precision) -> tuple[Tensor, Tensor]:
    """Logits and gradient of a model on a few images."""
    model = initial(name, (3, 32, 32), 10, 8, CPU, precision)
    model.train()
    rng = torch.Generator().manual_seed(0)
    x, y = torch.rand(8, 3, 32, 32, generator=rng).to(model.w), torch.randint(0, 10, (8,), generator=rng)
    logits = model(x)
    model.backward(F.cross_entropy(logits, y))
    return logits.detach(), model.grad


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_passes_give_float32_logits_and_gradients_near_those_of_float32(name: str) -> None:
    (wanted, slope), (logits, grad) = passes(name, PRECISIONS["float32"]), passes(name, BFLOAT16)
    assert logits.dtype == grad.dtype == torch.float32
    assert not torch.equal(logits, wanted)
    assert torch.allclose(logits, wanted, atol=0.05 * float(wanted.abs().max()))
    assert F.cosine_similarity(grad, slope, dim=0) > 0.95


@pytest.mark.parametrize("name", RUNS)
def test_a_bfloat16_run_is_near_the_float32_run_but_not_it(tiny: Make, name: str) -> None:
    whole = list(simulate(tiny(**RUNS[name])))[-1]
    short = list(simulate(tiny(**RUNS[name], precision="bfloat16")))[-1]
    assert short.train_loss != whole.train_loss
    assert short.train_loss == pytest.approx(whole.train_loss, rel=0.05)
    assert short.test_loss == pytest.approx(whole.test_loss, rel=0.05)


def test_all_that_a_bfloat16_run_keeps_is_float32(tiny: Make) -> None:
    simulation = Simulation(tiny(model="resnet8", precision="bfloat16", data__train_size=60))
    simulation.step()
    state = simulation.state
    assert state.velocity is not None
    kept = [state.w, state.buffers, *state.velocity, simulation.model.grad]
    assert {tensor.dtype for tensor in kept} == {torch.float32}
    fine = state.w.to(torch.bfloat16).to(torch.float32)
    assert not torch.equal(fine, state.w), "the vector has more digits than bfloat16"


def test_bfloat16_clients_are_averaged_in_float32(tiny: Make) -> None:
    config = tiny(precision="bfloat16", rounds=1)
    W = Simulation(config).train_cohort(1, (0, 1, 2, 3, 4)).W
    run = Simulation(config)
    run.step()
    sizes = torch.from_numpy(run.federation.split.sizes)
    wanted = (sizes.double() / sizes.sum()) @ W.double()
    assert torch.allclose(run.state.w.double(), wanted, rtol=1e-6, atol=1e-7)


class Spy(nn.Module):
    """A layer that notes the switches of the process in both passes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.seen: list[tuple[str, str, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(switches())
        out: Tensor = self.layer(x)
        out.register_hook(lambda grad: self.seen.append(switches()))
        return out


def switches() -> tuple[str, str, bool]:
    backends: Any = torch.backends
    autocast: bool = torch.is_autocast_enabled("cpu")
    return backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision, autocast


def test_tf32_is_on_in_both_passes_and_off_around_them() -> None:
    before, spy = switches(), Spy()
    model = FlatModel(spy, CPU, PRECISIONS["tf32"])
    loss = model(torch.rand(2, 4)).square().mean()
    assert switches() == before
    model.backward(loss)
    assert spy.seen == [("tf32", "tf32", False)] * 2
    assert switches() == before


def test_autocast_is_on_in_the_forward_pass_alone() -> None:
    spy = Spy()
    model = FlatModel(spy, CPU, BFLOAT16)
    model.backward(model(torch.rand(2, 4)).square().mean())
    assert [autocast for _, _, autocast in spy.seen] == [True, False]
    assert not torch.is_autocast_enabled("cpu")


def test_scores_are_taken_from_bfloat16_passes_in_float32(tiny: Make) -> None:
    simulation = Simulation(tiny(precision="bfloat16"))
    state = simulation.state
    logits, _ = next(predictions(simulation.model, state.w, state.buffers, simulation.federation.test))
    assert logits.dtype == torch.float32
    assert torch.equal(logits, logits.to(torch.bfloat16).to(torch.float32)), "they come from bfloat16"


def test_second_derivatives_are_taken_in_full(tiny: Make) -> None:
    settings = {"indicators__hessian_every": 1, "indicators__hessian_samples": 20, "rounds": 1, "clients__lr": 1e-30}
    short, whole = (list(simulate(tiny(**settings, precision=name)))[-1] for name in ("bfloat16", "float32"))
    assert short.indicators["hessian_top1"] == pytest.approx(whole.indicators["hessian_top1"], rel=1e-5)


def test_every_precision_is_an_experiment_of_its_own() -> None:
    assert len({TrialConfig(precision=name).hash for name in PRECISIONS}) == len(PRECISIONS)


def test_tf32_without_a_gpu_is_refused_in_one_line(tiny: Make, command: Callable[..., tuple[int, str, str]]) -> None:
    line = "precision = tf32: needs a GPU, the device is cpu; use precision=float32"
    with pytest.raises(UserError, match=line):
        Simulation(tiny(precision="tf32", run__device="cpu"))
    code, _, said = command(trial, "--set", "precision=tf32", "--set", "run.device=cpu")
    assert code == 2
    assert said.strip().splitlines()[-1].endswith(line)


@pytest.mark.parametrize("name", ["tf32", "bfloat16"])
def test_an_old_gpu_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    device = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    assert PRECISIONS[name].refuses(device) == "needs a GPU of compute capability 8.0, that of cuda:0 is 7.5"
    assert PRECISIONS["float64"].refuses(device) is None
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert PRECISIONS[name].refuses(device) is None


def test_tf32_is_refused_on_gpus_of_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 4))
    assert PRECISIONS["tf32"].refuses(torch.device("cuda:0")) == "AMD's GPUs have no TF32"
    assert PRECISIONS["bfloat16"].refuses(torch.device("cuda:0")) is None
