"""That a GPU would find everything where it needs it, as far as a CPU can tell."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fedbench
from fedbench import TrialConfig
from fedbench.corruptions import CORRUPTIONS
from fedbench.models import has_batch_norm
from fedbench.models.base import build, without_memory
from tests.simulation.test_matrix import BUILT_IN_METHODS, BUILT_IN_MODELS

ROOT = Path(fedbench.__file__).parent
SIMULATOR = [ROOT / room for room in ("corruptions", "indicators", "methods", "models", "simulation")]
SIMULATOR += [ROOT / "data" / "samples.py"]

# Makes a tensor on the CPU, unless it is told the device.
MAKERS = {
    "empty",
    "zeros",
    "ones",
    "full",
    "tensor",
    "as_tensor",
    "arange",
    "linspace",
    "eye",
    "rand",
    "randn",
    "randint",
}
FROM_HOST = {
    "from_numpy",
    "frombuffer",
    "tensor",
    "as_tensor",
}  # a copy that waits: base/tensors.py has one that does not
HOST_SIDE = {
    "models/base.py": "models are tried without memory",
    "methods/flower.py": "strategies work on numpy arrays",
    "methods/keeping.py": "values as tensors for a checkpoint, on the CPU",
    "methods/robust.py": "sorting by numpy, on the CPU alone",
    "methods/bulyan.py": "decides on the CPU",
    "methods/krum.py": "decides on the CPU",
    "methods/centered_clipping.py": "decides on the CPU",
}


def calls(names: set[str]) -> Iterator[tuple[str, ast.Call]]:
    """Every call torch.NAME(...) of the simulator, with its place."""
    files = [file for path in SIMULATOR for file in ([path] if path.suffix else sorted(path.rglob("*.py")))]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
                owner = node.func.value
                if isinstance(owner, ast.Name) and owner.id == "torch":
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def elsewhere(place: str) -> bool:
    return place.partition(":")[0] not in HOST_SIDE


def test_every_tensor_of_the_simulator_is_told_its_device() -> None:
    made = [place for place, call in calls(MAKERS) if not any(word.arg == "device" for word in call.keywords)]
    assert not [place for place in made if elsewhere(place)]


def test_values_get_to_the_device_in_one_place() -> None:
    assert not [place for place, _ in calls(FROM_HOST) if elsewhere(place)]


def test_the_exceptions_are_needed() -> None:
    places = {place.partition(":")[0] for place, _ in calls(MAKERS | FROM_HOST)}
    assert places >= HOST_SIDE.keys()


# Bulyan chooses by masks on the CPU, which fake tensors there cannot follow; the others need passes through a model.
FAKED = [name for name in BUILT_IN_METHODS if name not in ("bulyan", "flower")]
WORK = [f"method:{name}" for name in FAKED if TrialConfig(**{"method.name": name}).method.proxy_use == "none"]
WORK += [f"corruption:{name}" for name in CORRUPTIONS if CORRUPTIONS.version(name) is None]
WORK += ["learning:exp", "learning:quad"]


def fake_cuda(*work: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.fake_cuda", *work]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT.parent, timeout=240)


def test_the_server_side_mixes_no_devices() -> None:
    ended = fake_cuda(*WORK)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.split() == WORK


def test_mixed_devices_would_be_found() -> None:
    ended = fake_cuda("mixed:")
    assert ended.returncode == 1
    assert "FakeTensorDeviceMismatchError" in ended.stderr


@pytest.mark.parametrize("name", BUILT_IN_MODELS)
@pytest.mark.parametrize("batch", [2, 7])
def test_a_model_gives_logits_for_any_batch_without_memory(name: str, batch: int) -> None:
    shape, classes = ((1, 28, 28) if name == "mlp" else (3, 32, 32)), 10
    with without_memory():
        module = build(name, shape, classes).train()
        logits = module(torch.empty(batch, *shape))
    assert logits.shape == (batch, classes)
    assert logits.device.type == "meta"
    assert has_batch_norm(name, shape, classes) == any(True for _ in module.buffers())
