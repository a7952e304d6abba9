"""GPU shares, on logical GPUs: Ray hands them out, torch on a CPU machine cannot use them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import ray
import torch

from fedbench.study import main

Command = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU would be used")

PLUGIN = """
import os, time
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
    return folder


@pytest.fixture(scope="module")
def one_gpu(folder: Path) -> Iterator[None]:
    ray.shutdown()
    (folder / "clock").mkdir()
    env = {"env_vars": {"CLOCKED": str(folder / "clock")}}
    ray.init(address="local", num_cpus=4, num_gpus=1, include_dashboard=False, log_to_driver=False, runtime_env=env)
    yield
    ray.shutdown()


@pytest.fixture
def study(
    folder: Path, one_gpu: None, monkeypatch: pytest.MonkeyPatch, command: Command
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(folder)

    def call(out: str, *arguments: str) -> tuple[int, str, str]:
        return command(main, "mine.yaml", "--import", "clocked_plugin", "--out", out, *arguments)

    return call


def most_at_once(folder: Path) -> int:
    spans = [tuple(map(float, file.read_text().split())) for file in (folder / "clock").iterdir()]
    return max(sum(a <= begin < b for a, b in spans) for begin, _ in spans)


def test_a_gpu_that_torch_cannot_use_is_a_clear_failure_not_a_cpu_run(
    study: Callable[..., tuple[int, str, str]],
) -> None:
    code, text, _ = study("shared", "--seeds", "1,2")
    assert code == 1  # nothing succeeded
    assert text.count("Ray assigned a GPU that torch cannot use") >= 2
    cells = pd.read_csv("shared/studies/mine/quick/seeds=1,2/cells.csv")
    assert cells["failed"].tolist() == [2]


def test_trials_keep_to_cpus_when_told_to(study: Callable[..., tuple[int, str, str]]) -> None:
    code, _, _ = study("cpus", "--gpus-per-trial", "0", "--seeds", "1")
    assert code == 0


def test_shares_of_a_gpu_limit_how_many_trials_run_at_once(
    study: Callable[..., tuple[int, str, str]], folder: Path
) -> None:
    for file in (folder / "clock").iterdir():
        file.unlink()
    code, _, _ = study("packed", "--gpus-per-trial", "0.5", "--set", "run.device=cpu")
    assert code == 0
    assert len(list((folder / "clock").iterdir())) == 6
    assert most_at_once(folder) == 2  # four CPUs are there: it is the GPU that is full
