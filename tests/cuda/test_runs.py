"""Whole runs on a GPU: near the CPU's, resumable, beside each other, within their memory, without waiting."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fedbench import Simulation, simulate
from fedbench.base.settings import dump_yaml
from fedbench.cli.check import GOOD, TRIALS, grown
from fedbench.cost.checkup import memory_after_trials, run_once
from fedbench.cost.processes import Server
from fedbench.simulation import checkpoint
from fedbench.simulation.compute import exact
from fedbench.store.memory import release_memory
from tests.cuda.places import both, bytes_of, config_of, finished, on_gpu, simulation_of
from tests.cuda.test_engines import METHODS
from tests.simulation.test_matrix import BUILT_IN_MODELS

SMALL_MODELS = ["mlp", "lenet5", "simple_cnn", "alexnet", "resnet8"]
TOLERANCE = {"tf32": 0.01, "bfloat16": 0.05}  # of losses after two rounds


def test_the_small_models_are_there() -> None:
    assert set(SMALL_MODELS) <= set(BUILT_IN_MODELS)


def agree(device: str, **settings: Any) -> None:
    """A float64 run on a device is that of the CPU, to 1e-9."""
    there, here = (Simulation(config_of(where, precision="float64", **settings)) for where in (device, "cpu"))
    while not here.done:
        one, other = there.step(), here.step()
        assert (one.train_loss, one.test_loss) == pytest.approx((other.train_loss, other.test_loss), rel=1e-9)
        assert one.lambda_ == pytest.approx(other.lambda_, abs=1e-9)
    assert torch.allclose(there.state.w.cpu(), here.state.w, rtol=1e-9, atol=1e-9)


@both(METHODS, ["fedavg", "fedlaw"])
def test_a_method_in_float64_is_that_of_the_cpu(device: str, case: str) -> None:
    agree(device, method__name=case)


@both(SMALL_MODELS, ["mlp"])
def test_a_model_in_float64_is_that_of_the_cpu(device: str, case: str) -> None:
    agree(device, model=case, clients__epochs=1)


@both(["tf32", "bfloat16"], ["bfloat16"])
@pytest.mark.parametrize("model", ["mlp", "simple_cnn"])
def test_less_precision_is_near_float32(device: str, case: str, model: str) -> None:
    if device == "cuda" and torch.cuda.get_device_capability()[0] < 8:
        pytest.skip(f"this GPU has no {case}")
    whole, less = (list(simulate(config_of(device, model=model, precision=p)))[-1] for p in ("float32", case))
    wanted = pytest.approx((whole.train_loss, whole.test_loss), rel=TOLERANCE[case])
    assert (less.train_loss, less.test_loss) == wanted


@both(["eager", "graphed"], ["eager", "graphed"])
def test_a_resumed_run_ends_with_the_same_bytes(device: str, case: str, tmp_path: Path) -> None:
    config = config_of(device, method__name="fedlaw", model="resnet8", bn="proxy", clients__epochs=1, rounds=3)
    whole, first, second = (simulation_of(config, case) for _ in range(3))
    wanted = finished(whole)
    first.step()
    checkpoint.save(first, tmp_path)
    assert checkpoint.restore(second, tmp_path) == []
    assert bytes_of(second) == bytes_of(first)
    assert finished(second) == wanted


def scores(folder: Path) -> list[dict[str, str]]:
    with (folder / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [{key: value for key, value in row.items() if not key.startswith("seconds")} for row in rows]


@both(["trials"], [])
def test_two_trials_at_once_give_what_each_gives_alone(device: str, case: str, tmp_path: Path) -> None:
    def start(name: str, seed: int) -> subprocess.Popen[bytes]:
        config = config_of(device, model="simple_cnn", method__name="fedlaw", clients__epochs=1, seed=seed)
        file = tmp_path / f"{name}.yaml"
        file.write_text(dump_yaml(config.plain()))
        command = [sys.executable, "-m", "fedbench.trial", "--config", str(file), "--out", str(tmp_path / name)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    for seed in (8, 9):
        assert start(f"alone{seed}", seed).wait(timeout=140) == 0
    at_once = [start(f"both{seed}", seed) for seed in (8, 9)]
    assert [process.wait(timeout=140) for process in at_once] == [0, 0]
    for seed in (8, 9):
        assert scores(tmp_path / f"both{seed}") == scores(tmp_path / f"alone{seed}")


@both(["trials"], [])
def test_two_trials_at_once_end_with_the_bytes_of_one_alone(device: str, case: str) -> None:
    server = Server()
    alone = server.together(run_once, device, None)[0]
    at_once = server.together(run_once, device, None, count=2)
    assert alone.engine == ("graphed" if device == "cuda" else "eager")
    assert [each.checksum for each in at_once] == [alone.checksum] * 2


@both(["process"], ["process"])
def test_a_later_trial_in_one_process_ends_with_the_bytes_of_the_first(device: str, case: str) -> None:
    def ended(seed: int) -> dict[str, bytes]:
        config = config_of(device, model="simple_cnn", method__name="fedlaw", clients__epochs=1, seed=seed)
        found, _ = finished(simulation_of(config, "graphed"))
        release_memory()
        return found

    first, other, again = ended(8), ended(9), ended(8)
    assert first == again
    assert first != other


@both(["memory"], [])
def test_trials_one_after_the_other_leave_no_memory_behind(device: str, case: str) -> None:
    used = Server().run(memory_after_trials, (device, TRIALS), seconds=120.0)[0]
    assert grown(used)[0] == GOOD, used


WAITING = """
import sys
from pathlib import Path
import torch
from torch import nn
from fedbench import Simulation
from fedbench.cost.checkup import checksum
from fedbench.models import register_model
from tests.cuda.places import config_of

class Waiting(nn.Linear):
    def forward(self, x):
        x = x.flatten(1)
        return super().forward(x * (1.0 if x.device.type == "meta" else 1.0 + 0 * x.sum().item()))

@register_model("waiting")
def waiting(shape, num_classes):
    return Waiting(shape[0] * shape[1] * shape[2], num_classes)

for engine in ("auto", "eager"):
    simulation = Simulation(config_of(sys.argv[1], model="waiting", method__name="fedlaw", run__engine=engine))
    while not simulation.done:
        simulation.step()
    print(checksum(simulation), simulation.engine.name, simulation.engine.complaint)
"""


@both(["item"], ["item"])
def test_a_model_that_waits_for_the_gpu_cannot_be_captured_and_ends_with_the_bytes_of_eager_steps(
    device: str, case: str
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", WAITING, device]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=Path(__file__).parents[2])
    found, wanted = (line.split(" ", 2) for line in ended.stdout.splitlines())
    assert found[:2] == wanted[:2], ended.stdout + ended.stderr
    assert ("cannot be captured" in found[2]) == (device == "cuda")


CAPPED = """
import sys
from pathlib import Path
import torch
from fedbench.store.execute import execute
from fedbench.store.store import Store
from tests.cuda.places import config_of

def capped():
    if sys.argv[2] != "1":
        torch.cuda.set_per_process_memory_fraction(float(sys.argv[2]), 0)
    return "cuda:0"

trial = execute(config_of("auto", model="resnet8", clients__epochs=1), Store(Path(sys.argv[1])), None, device=capped)
print(trial.status, trial.reason)
"""


@pytest.mark.parametrize("share", [pytest.param("0.5", marks=on_gpu)])
def test_half_of_the_memory_gives_the_bytes_of_the_whole(tmp_path: Path, share: str) -> None:
    stored = []
    for part in ("1", share):
        command = [sys.executable, "-c", CAPPED, str(tmp_path / part), part]
        subprocess.run(command, capture_output=True, check=True, timeout=280, cwd=Path(__file__).parents[2])
        (folder,) = (tmp_path / part / "trials").iterdir()
        stored.append([(folder / name).read_bytes() for name in ("clients.csv", "summary.json")])
    assert stored[0][0] == stored[1][0]
    reserved = json.loads(stored[1][1])["peak_gpu_reserved_bytes"]
    assert 0 < reserved <= float(share) * torch.cuda.get_device_properties(0).total_memory


SHARES = [
    pytest.param("1", "done", marks=on_gpu),
    pytest.param("0.5", "done", marks=on_gpu),
    pytest.param("1e-6", "failed", marks=on_gpu),
]


@pytest.mark.parametrize(("share", "status"), SHARES)
def test_a_trial_keeps_to_its_share_of_the_memory(tmp_path: Path, share: str, status: str) -> None:
    command = [sys.executable, "-c", CAPPED, str(tmp_path), share]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=root)
    assert ended.stdout.split()[0] == status, ended.stdout + ended.stderr
    assert ("out of memory" in ended.stdout) == (status == "failed")


@pytest.mark.parametrize("engine", [pytest.param(name, marks=on_gpu) for name in ("eager", "graphed")])
@pytest.mark.parametrize("method", ["fedavg", "fedprox", "feddyn", "scaffold"])
def test_torch_sees_no_wait_in_local_training(engine: str, method: str) -> None:
    simulation = simulation_of(config_of("cuda", method__name=method, rounds=4), engine)
    for _ in range(2):  # then all is captured, and the plans of the next round are drawn
        simulation.step()
    clients = simulation.clients_of(3)
    with exact(simulation.config.run, simulation.device):
        torch.cuda.set_sync_debug_mode("error")
        try:
            simulation.train_cohort(3, clients)
        finally:
            torch.cuda.set_sync_debug_mode("default")
