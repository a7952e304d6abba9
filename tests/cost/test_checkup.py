"""The check of a machine: what it reports here, and what it finds where something is wrong."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fedbench.cli import check
from fedbench.cli.check import BAD, GOOD, NO_GPU, check_repeats, grown, run_check
from fedbench.cost import checkup
from fedbench.cost.processes import Server
from fedbench.cost.trial import context_memory
from fedbench.simulation import Simulation
from fedbench.simulation.environment import mps_running

MIB = 2**20
HERE = "cuda" if torch.cuda.is_available() else "cpu"
DRIFTING = """
import time
import torch
from torch import nn
from fedbench.models import register_model

class Drifting(nn.Linear):
    def forward(self, x):
        return super().forward(x.flatten(1)) * (1.0 if x.device.type == "meta" else time.time() % 1)

@register_model("drifting")
def drifting(shape, num_classes):
    return Drifting(shape[0] * shape[1] * shape[2], num_classes)
"""


@pytest.mark.slow
def test_the_report_says_what_is_as_promised_and_what_waits_for_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "LAYOUT_SECONDS", 0.05)
    monkeypatch.setattr(check, "TRIALS", 3)
    assert run_check(["mlp"], [])
    text = capfd.readouterr().out
    lines = {line.partition(": ")[0]: line.partition(": ")[2] for line in text.splitlines() if ": " in line}
    assert lines["torch"] == torch.__version__
    assert lines["ok       every model, trained twice"] == "the same bytes in mlp"
    assert lines["ok       two trials at once"].startswith("the same bytes (engine ")
    assert lines["ok       memory after 3 trials in one worker"].startswith("grew by ")
    assert " times as fast (" in text
    if HERE == "cpu":
        assert lines["GPU"].startswith("none that torch can use: torch ")
        waiting = [name for name, result in lines.items() if name.startswith(NO_GPU) and result == "not run"]
        assert len(waiting) == 3
        assert "\n4 checks, 0 problems; 3 need a GPU that torch can use; " in text


def test_a_model_that_does_not_repeat_itself_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("drifting_model.py").write_text(DRIFTING)
    finding = check_repeats(Server([str(tmp_path / "drifting_model.py")]), HERE, ["drifting", "mlp"])
    assert finding.verdict == BAD
    assert finding.result == "drifting (not the same weights as with eager steps); the same bytes in mlp"


def test_memory_that_grows_from_trial_to_trial_is_a_problem_and_what_is_taken_once_is_not() -> None:
    assert grown([100 * MIB, 300 * MIB, 310 * MIB, 301 * MIB])[0] == GOOD
    verdict, result = grown([100 * MIB, 300 * MIB, 340 * MIB, 380 * MIB])
    assert (verdict, result) == (BAD, "grew by 80 MiB (in use after each, in MiB: 100, 300, 340, 380)")


def test_the_checksum_of_a_run_depends_on_its_numbers() -> None:
    def ended(seed: int) -> str:
        simulation = Simulation(checkup._trial(HERE, seed))
        simulation.step()
        return checkup.checksum(simulation)

    assert ended(1) == ended(1) != ended(2)


def test_the_options_of_measuring_do_not_go_with_checking() -> None:
    for option in (["--seconds", "3"], ["--out", "x"]):
        command = [sys.executable, "-m", "fedbench.speed", "--check", *option]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        wanted = "error: --check: takes as long as it takes, and keeps nothing; leave out --seconds and --out\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", wanted)


class Card:
    """A GPU of 16 GiB in the words of torch.cuda: a process takes 500 MiB for its context once it computes."""

    def __init__(self) -> None:
        self.free = 16 * 1024 * MIB

    def zeros(self, *size: int, **kwargs: Any) -> None:
        self.free -= 500 * MIB


def test_the_memory_of_a_context_is_what_a_second_process_takes_from_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    card, ones = Card(), torch.ones

    def created(*size: int, device: str) -> torch.Tensor:
        if len(size) == 4 and size[0] == 1:  # the first tensor of the second process
            card.zeros()
        return ones(*size)

    monkeypatch.setattr(torch, "zeros", card.zeros)
    monkeypatch.setattr(torch, "ones", created)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (card.free, 16 * 1024 * MIB))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    meeting, found = threading.Barrier(2), list[int | None]()
    threads = [threading.Thread(target=lambda: found.append(context_memory(meeting))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(found, key=str) == [500 * MIB, None]


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Puts NVIDIA's control program on the path: it ends with a code."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "pipes"))

    def program(code: int) -> None:
        file = tmp_path / "nvidia-cuda-mps-control"
        file.write_text(f'#!/bin/sh\nread line\ntest "$line" = get_server_list && exit {code}\nexit 9\n')
        file.chmod(0o755)

    yield program


@pytest.mark.parametrize(("code", "runs"), [(0, True), (1, False)])
def test_mps_runs_where_its_control_program_has_an_answer(
    control: Callable[[int], None], code: int, runs: bool
) -> None:
    control(code)
    assert mps_running() == runs


def test_in_a_container_mps_runs_where_its_control_pipe_can_be_seen(
    control: Callable[[int], None], tmp_path: Path
) -> None:
    assert not mps_running()
    (tmp_path / "pipes").mkdir()
    (tmp_path / "pipes" / "control").touch()
    assert mps_running()
