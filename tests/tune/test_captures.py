"""Workers whose GPU does not do what it should: captures that fail, memory that is not given back, caps."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedbench import TrialConfig
from fedbench.base.plugins import import_modules
from fedbench.store import gpu
from fedbench.store.execute import execute
from fedbench.store.gpu import assigned_device
from fedbench.store.mark import UNCAPTURED
from fedbench.store.memory import release_memory
from fedbench.store.store import Store
from fedbench.tune.worker import WornError
from tests.commands import search
from tests.commands import study as main
from tests.tune.test_worker import home, run, worker_of

Tiny = Callable[..., TrialConfig]
Command = Callable[..., tuple[int, str, str]]
PLUGIN = """
import os
from pathlib import Path
from fedbench.simulation.engines import register_engine
from fedbench.simulation.engines.capture import WARM_UP
from fedbench.simulation.engines.graphed import Graphed

class Failing:
    def warm(self, step):
        step()

    def record(self, step):
        with Path(__file__).with_name("captures").open("a") as log:
            log.write(f"{os.getpid()}\\n")
        raise RuntimeError("operation not permitted when stream is capturing")

@register_engine("captured")
class Captured(Graphed):
    def __init__(self, model, samples):
        super().__init__(model, samples, Failing())

    @classmethod
    def refuses(cls, device):
        return None
"""


@pytest.fixture
def captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None) -> Path:
    """The file in which processes note that they have tried a capture; the engine is in a module beside it."""
    monkeypatch.delitem(sys.modules, "capture_plugin", raising=False)
    (tmp_path / "capture_plugin.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "captures"


def test_a_trial_whose_capture_fails_ends_its_process_and_goes_on_in_another_one(
    tiny: Tiny, captures: Path, one_cpu: None
) -> None:
    import_modules(["capture_plugin"])
    config = tiny(run__engine="captured")
    with home(Path("out"), config, "capture_plugin") as (name, _):
        process = worker_of(name, config)
        report = process.step()
        assert report["status"] == UNCAPTURED
        assert "a step cannot be captured (operation not permitted" in report["reason"]
        assert not report.get("done"), "Tune would give the process another trial"
        assert Store(Path("out")).get(config.hash) is None
        with pytest.raises(WornError):
            process.step()
        process.cleanup()
        assert run(name, config)["status"] == "done"
    stored, whole = Store(Path("out")).get(config.hash), execute(tiny(), Store(Path("whole")), None)
    assert stored and stored.read("clients.csv") == whole.read("clients.csv")


STUDY = """
title: Mine
shows: x
base: {data.train_size: 40, data.test_size: 200, clients.count: 2, rounds: 2, data.partition: iid, run.engine: captured}
grid: {method: {a: {method.name: fedavg}}}
seeds: [1, 2, 3]
tables: {accuracy: {rows: [], columns: [method]}}
scales: {quick: {}}
"""
SPACE = """
title: Mine
tunes: x
base: {data.train_size: 40, data.test_size: 200, clients.count: 2, rounds: 2, data.partition: iid, run.engine: captured}
parameters: {clients.lr: {uniform: [0.01, 0.1]}}
trials: 2
suggestion_seeds: [1]
seeds: [8]
scales: {quick: {}}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("one_cpu")
def test_a_study_goes_on_without_captured_steps_in_new_processes(command: Command, captures: Path) -> None:
    Path("mine.yaml").write_text(STUDY)
    options = ("--no-try", "--import", "capture_plugin", "--max-failures", "0", "--out", "out")
    code, text, error = command(main, "mine.yaml", *options)
    assert code == 0, text + error
    assert error.count("cannot be captured") == error.count("using eager, in a new process") == 1
    assert len(captures.read_text().split()) == 1, "the other trials of the model are run without from the start"
    assert "failed" not in text


@pytest.mark.slow
@pytest.mark.usefixtures("one_cpu")
def test_a_search_goes_on_without_captured_steps(command: Command, captures: Path) -> None:
    Path("space.yaml").write_text(SPACE)
    options = ("--no-try", "--import", "capture_plugin", "--max-failures", "0", "--out", "out", "--sampler", "random")
    code, text, error = command(search, "space.yaml", *options)
    assert code == 0, text + error
    assert text.count("cannot be captured") == error.count("cannot be captured") == 1, "suggestions, and final runs"
    assert len(captures.read_text().split()) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("one_cpu")
def test_a_process_that_is_worn_out_reports_its_trial_and_takes_no_other(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(gpu, "MOST_TRIALS", 2)
    first, second = tiny(seed=1), tiny(seed=2)
    with home(tmp_path / "out", first) as (name, _), home(tmp_path / "out2", second) as (other, _):
        process = worker_of(name, first)
        while not (report := process.step()).get("done"):
            assert report["status"] == "running"
        process.reset({**process.config, "home": other, "hash": second.hash})  # type: ignore[no-untyped-call]
        while (report := process.step())["status"] == "running":
            pass
        assert (report["status"], report["done"]) == ("done", False)
        with pytest.raises(WornError):
            process.step()
        process.cleanup()
    assert Store(tmp_path / "out2").get(second.hash)


def test_workspaces_are_given_back_where_torch_can_so_that_processes_do_not_wear_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("cache"))
    assert gpu.worn_out(gpu.MOST_TRIALS) and not gpu.worn_out(gpu.MOST_TRIALS - 1)
    monkeypatch.setattr(torch.cuda, "clear_cublas_workspaces", lambda: calls.append("workspaces"), raising=False)
    release_memory()
    assert calls == ["workspaces", "cache"], "first what the cache is to get"
    assert not gpu.worn_out(10 * gpu.MOST_TRIALS)


GIB = 2**30


@pytest.mark.parametrize(
    ("share", "visible", "wanted", "fraction"),
    [(1.0, "3", "cuda:0", None), (0.25, "3", "cuda:0", 0.25 - 1 / 16), (0.25, None, "cuda:3", 0.25 - 1 / 16)],
)
def test_a_trial_gets_the_gpu_that_ray_gave_it_and_its_share_without_the_context(
    share: float, visible: str | None, wanted: str, fraction: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    caps: list[Any] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *given: caps.append(given))
    card = type("Card", (), {"total_memory": 16 * GIB})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert assigned_device([3], share, 1 * GIB) == wanted
    assert caps == ([] if fraction is None else [(fraction, int(wanted[-1]))])
