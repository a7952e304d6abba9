"""Real processes: what they find, and what becomes of those that fail."""

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedbench.cost import processes
from fedbench.cost.cases import Case, Setting
from fedbench.cost.processes import LeftOut, Server

PLUGIN = """
import os, time
import torch
from torch import nn
from fedbench.models import register_model

class Bad(nn.Linear):
    def forward(self, x):
        if x.device.type != "meta":
            {does}
        return super().forward(x.flatten(1))

@register_model("bad")
def bad(shape, num_classes):
    return Bad(784, num_classes)
"""
Bad = Callable[[str], Server]


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bad:
    """A server whose processes know a model that does something bad."""
    monkeypatch.chdir(tmp_path)

    def make(does: str) -> Server:
        (tmp_path / "bad_model.py").write_text(PLUGIN.format(does=does))
        return Server([str(tmp_path / "bad_model.py")])

    return make


def case(model: str, at_once: int = 1, precision: str = "float32") -> Case:
    return Case("mnist5k", model, Setting("eager", precision, at_once, 1))


def test_trials_at_once_each_find_their_speed() -> None:
    found = Server().trials(case("mlp", 2), "cpu", 0.2)
    assert len(found) == 2
    for each in found:
        assert each.engine == "eager"
        assert each.trained > 100
        assert each.scored > 100
        assert each.memory > 2**25


def test_matrices_are_multiplied() -> None:
    assert min(Server().matrices(precision, "cpu", 1, 0.1) for precision in ("float32", "float64")) > 1e8


def test_a_precision_that_the_device_does_not_have_is_left_out_with_the_reason() -> None:
    with pytest.raises(LeftOut, match=r"^needs a GPU, the device is cpu$"):
        Server().matrices("tf32", "cpu", 1, 0.1)
    with pytest.raises(LeftOut, match=r"^needs a GPU, the device is cpu$"):
        Server().trials(case("mlp", 2, "tf32"), "cpu", 0.1)


def test_a_trial_that_fails_says_why_and_the_others_do_not_wait_for_it(bad: Bad) -> None:
    started = time.monotonic()
    with pytest.raises(LeftOut, match=r"^OutOfMemoryError: no memory$"):
        bad(r"raise torch.OutOfMemoryError('no memory\nleft')").trials(case("bad", 2), "cpu", 0.1)
    assert time.monotonic() - started < processes.START_SECONDS


def test_a_process_that_dies_is_left_out(bad: Bad) -> None:
    with pytest.raises(LeftOut, match=r"^its process died \(exit code 7\)$"):
        bad("os._exit(7)").trials(case("bad", 2), "cpu", 0.1)


def test_a_process_that_hangs_is_left_out_and_ended(bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "START_SECONDS", 3.0)
    server = bad("time.sleep(600)")
    with pytest.raises(LeftOut, match=r"^not done after 4 s$"):
        server.trials(case("bad"), "cpu", 0.1)
    assert not multiprocessing.active_children()
