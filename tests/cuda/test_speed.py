"""Measuring a GPU, and sharing it out by memory."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import ray
import torch

from fedbench.cost.cases import Case, Machine, Setting
from fedbench.cost.processes import Server
from tests.commands import study as main
from tests.cuda.places import on_gpu
from tests.helpers import study_file

Command = Callable[..., tuple[int, str, str]]
pytestmark = on_gpu


def test_trials_at_once_share_the_gpu() -> None:
    found = Server().trials(Case("mnist5k", "mlp", Setting("graphed", "float32", 2, 1)), "cuda", 1.0)
    assert [each.engine for each in found] == ["graphed"] * 2, found[0].note
    for each in found:
        assert each.trained > 1000
        assert 2**20 < each.memory < torch.cuda.get_device_properties(0).total_memory


def test_every_engine_and_precision_is_measured(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedbench.speed", "--models", "mlp,resnet8", "--seconds", "40", "--out"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=True, timeout=280)
    content = json.loads((tmp_path / "speed" / "speed.json").read_text())
    found = {(row["model"], row["engine"], row["precision"], row["at_once"]) for row in content["rows"]}
    new = torch.cuda.get_device_capability()[0] >= 8
    for model in ("mlp", "resnet8"):
        assert {(model, "eager", "float32", 1), (model, "graphed", "float32", 1)} <= found, content["left_out"]
        assert ((model, "graphed", "tf32", 1) in found) == ((model, "graphed", "bfloat16", 1) in found) == new
    assert all(0 < row["share"] < 1.2 for row in content["rows"])
    assert "use: --gpus-per-trial " in done.stdout


@pytest.fixture
def out(tmp_path: Path) -> str:
    ray.shutdown()
    return str(tmp_path / "out")


def test_trials_share_a_gpu_as_they_fit_and_tell_its_memory(command: Command, tmp_path: Path, out: str) -> None:
    code, text, error = command(main, study_file(tmp_path, seeds=(8,)), "--out", out)
    assert code == 0, error
    assert "--gpus-per-trial " in text
    for summary in Path(out, "trials").glob("*/summary.json"):
        content = json.loads(summary.read_text())
        assert 0 < content["peak_gpu_memory_bytes"] <= content["peak_gpu_reserved_bytes"]
    code, text, _ = command(main, study_file(tmp_path, seeds=(9,)), "--out", out, "--dry-run")
    assert "GPU memory: about " in text
    assert Machine.here().device == "cuda"


def test_a_share_too_small_for_a_trial_is_doubled_once_and_said(command: Command, tmp_path: Path, out: str) -> None:
    share = 2**21 / torch.cuda.get_device_properties(0).total_memory  # one block of memory, in Ray's ten-thousandths
    options = ("--gpus-per-trial", f"{max(1e-4, round(share, 4)):g}", "--max-concurrent", "1")
    _, _, error = command(main, study_file(tmp_path, seeds=(8,)), "--out", out, *options)
    assert "out of GPU memory; it is tried again with " in error
