"""GPU shares, on logical GPUs: Ray hands them out, torch on a CPU machine cannot use them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.commands import search
from tests.commands import study as main
from tests.conftest import small_cluster

Command = Callable[..., tuple[int, str, str]]
Study = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU would be used")

PLUGIN = """
import os, time
import ray, torch
from pathlib import Path
from typing import Literal
from fedbench.methods import Method, MethodSettings, register_method
from fedbench.methods.base import size_weighted

class S(MethodSettings):
    name: Literal["clocked"] = "clocked"

@register_method(version="1")
class Clocked(Method[S]):
    Settings = S

    def start(self, num_clients, w):
        self.began = time.time()
        return {}

    def aggregate(self, cohort, state, server):
        time.sleep(0.5)
        Path(os.environ["CLOCKED"], f"{os.getpid()}-{self.began}").write_text(f"{self.began} {time.time()}")
        return size_weighted(cohort)

class H(MethodSettings):
    name: Literal["hungry"] = "hungry"
    failures: int = 1
    x: float = 0.5

@register_method(version="1")
class Hungry(Method[H]):
    Settings = H

    def aggregate(self, cohort, state, server):
        log, failures = Path(os.environ["HUNGRY"], "shares"), self.settings.failures
        share = ray.get_runtime_context().get_assigned_resources()["GPU"]
        tried = log.read_text().split() if log.exists() else []
        if cohort.round == 2 and len(tried) <= failures:
            log.write_text(" ".join([*tried, f"{share:g}"]))
            if len(tried) < failures:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return size_weighted(cohort)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    (folder / "clocked_plugin.py").write_text(PLUGIN)
    (folder / "mine.yaml").write_text(
        "title: Mine\nshows: x\n"
        "base: {data.train_size: 40, data.test_size: 200, clients.count: 2, rounds: 3, data.partition: iid}\n"
        "grid: {method: {a: {method.name: clocked}}}\nseeds: [1, 2, 3, 4, 5, 6]\n"
        "tables: {accuracy: {rows: [], columns: [method]}}\nscales: {quick: {}}\n"
    )
    hungry = (folder / "mine.yaml").read_text().replace("clocked", "hungry").replace("1, 2, 3, 4, 5, 6", "1")
    (folder / "hungry.yaml").write_text(hungry)
    (folder / "space.yaml").write_text(
        "title: Mine\ntunes: x\n"
        "base: {data.train_size: 300, data.test_size: 200, clients.count: 2, rounds: 3, method.name: hungry}\n"
        "parameters: {method.x: {uniform: [0, 1]}}\ntrials: 1\nsuggestion_seeds: [1]\nseeds: [8]\nscales: {quick: {}}\n"
    )
    return folder


@pytest.fixture(scope="module")
def one_gpu(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, variable in (("clock", "CLOCKED"), ("hunger", "HUNGRY")):
            (folder / name).mkdir()
            patch.setenv(variable, str(folder / name))
        types = {"accelerator_type:A100": 1.0, "accelerator_type:T4": 1.0}
        yield from small_cluster(4, num_gpus=1, resources=types)


@pytest.fixture
def study(
    folder: Path, one_gpu: None, monkeypatch: pytest.MonkeyPatch, command: Command
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(folder)

    def call(out: str, *arguments: str, file: str = "mine.yaml") -> tuple[int, str, str]:
        return command(main, file, "--no-try", "--import", "clocked_plugin", "--out", out, *arguments)

    return call


@pytest.fixture
def hunger(folder: Path) -> Path:
    """Where hungry trials write the shares that they had in the second round, each time they got there."""
    path = folder / "hunger" / "shares"
    path.unlink(missing_ok=True)
    return path


def most_at_once(folder: Path) -> int:
    spans = [tuple(map(float, file.read_text().split())) for file in (folder / "clock").iterdir()]
    return max(sum(a <= begin < b for a, b in spans) for begin, _ in spans)


def test_a_gpu_that_torch_cannot_use_is_a_clear_failure_not_a_cpu_run(
    study: Callable[..., tuple[int, str, str]],
) -> None:
    code, text, _ = study("shared", "--gpus-per-trial", "0.25", "--seeds", "1,2")
    assert code == 1  # nothing succeeded
    assert text.count("Ray assigned a GPU that torch cannot use") >= 2
    mixed = "GPUs of several types (1 A100, 1 T4): results may differ in their rounding; "
    assert mixed + "--resources accelerator_type:A100=0.001 keeps to one" in text
    cells = pd.read_csv("shared/studies/mine/quick/seeds=1,2/cells.csv")
    assert cells["failed"].tolist() == [2]


def test_gpus_that_torch_can_use_nowhere_are_left_alone(study: Study) -> None:
    code, text, _ = study("unusable", "--seeds", "1")
    assert code == 0
    assert "--gpus-per-trial 0: torch can use none of the GPUs" in text


def test_trials_keep_to_cpus_when_told_to(study: Study) -> None:
    code, text, _ = study("cpus", "--gpus-per-trial", "0", "--seeds", "1")
    assert code == 0
    assert "GPU" not in text


def test_shares_of_a_gpu_limit_how_many_trials_run_at_once(
    study: Callable[..., tuple[int, str, str]], folder: Path
) -> None:
    for file in (folder / "clock").iterdir():
        file.unlink()
    code, _, _ = study("packed", "--gpus-per-trial", "0.5", "--set", "run.device=cpu")
    assert code == 0
    assert len(list((folder / "clock").iterdir())) == 6
    assert most_at_once(folder) == 2  # four CPUs are there: it is the GPU that is full


def test_a_trial_out_of_memory_is_tried_again_with_twice_the_share(study: Study, hunger: Path) -> None:
    options = ("--gpus-per-trial", "0.25", "--set", "run.device=cpu", "--max-failures", "0")
    code, text, error = study("hungry", *options, file="hungry.yaml")
    assert code == 0
    assert error.count("warning: ") == 1
    assert "seed 1: out of GPU memory; it is tried again with 0.5 of a GPU" in error
    assert hunger.read_text() == "0.25 0.5"
    assert "failed" not in text


def test_a_trial_out_of_memory_is_tried_again_once(study: Study, hunger: Path) -> None:
    options = ("--gpus-per-trial", "0.2", "--set", "run.device=cpu", "--set", "method.failures=9")
    code, text, error = study("starved", *options, file="hungry.yaml")
    assert code == 1
    assert error.count("tried again") == 1
    assert hunger.read_text() == "0.2 0.4"
    assert "failed: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" in text


def test_a_suggestion_out_of_memory_is_tried_again_with_twice_the_share(
    one_gpu: None, folder: Path, hunger: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(folder)
    options = ("--gpus-per-trial", "0.25", "--set", "run.device=cpu", "--max-failures", "0", "--sampler", "random")
    code, text, error = command(
        search, "space.yaml", "--no-try", "--import", "clocked_plugin", "--out", "searched", *options
    )
    assert code == 0, text + error
    assert "out of GPU memory: suggestions are tried again with 0.5 of a GPU each" in text
    assert hunger.read_text() == "0.25 0.5"


def test_one_of_several_types_of_gpus_can_be_chosen(study: Study, folder: Path) -> None:
    for file in (folder / "clock").iterdir():
        file.unlink()
    chosen = ("--resources", "accelerator_type:T4=0.5", "--gpus-per-trial", "0.1", "--set", "run.device=cpu")
    code, text, _ = study("chosen", *chosen, "--seeds", "1,2,3,4")
    assert code == 0
    assert "several types" not in text
    assert most_at_once(folder) == 2  # four CPUs are there: it is the resource that is used up


def test_a_resource_that_no_node_has_is_one_line(study: Study) -> None:
    code, _, error = study("nowhere", "--gpus-per-trial", "0", "--resources", "accelerator_type:H100=0.001")
    assert code == 2
    message = "error: --resources accelerator_type:H100=0.001: the cluster's largest node has 0; "
    assert error == message + "ask for less, or say --autoscaling if it grows\n"
