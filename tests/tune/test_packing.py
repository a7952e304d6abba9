"""Fewer trials than fit on a cluster's GPUs: all GPUs are used, as Ray's logical GPUs show."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.commands import search
from tests.commands import study as main
from tests.conftest import small_cluster

Command = Callable[..., tuple[int, str, str]]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU would be used"),
]
PLUGIN = """
import os
import ray
import time
from pathlib import Path
from typing import Literal
from fedbench.methods import Method, MethodSettings, register_method
from fedbench.methods.base import size_weighted

class S(MethodSettings):
    name: Literal["placed"] = "placed"
    x: float = 0.5
    together: int = 1  # trials that have to be there before one of them goes on

@register_method(version="1")
class Placed(Method[S]):
    Settings = S

    def start(self, num_clients, w):
        share = ray.get_runtime_context().get_assigned_resources()["GPU"]
        with Path(os.environ["PLACED"]).open("a") as log:
            log.write(f"{ray.get_gpu_ids()[0]} {share:g}\\n")
        deadline = time.monotonic() + 200
        while len(Path(os.environ["PLACED"]).read_text().splitlines()) < self.settings.together:
            assert time.monotonic() < deadline, "the others were not started meanwhile"
            time.sleep(0.05)
        return {}

    def aggregate(self, cohort, state, server):
        return size_weighted(cohort)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packing")
    (folder / "placed_plugin.py").write_text(PLUGIN)
    base = "data.train_size: 40, data.test_size: 200, clients.count: 2, rounds: 2, data.partition: iid"
    (folder / "mine.yaml").write_text(
        f"title: Mine\nshows: x\nbase: {{{base}}}\ngrid: {{method: {{a: {{method.name: placed}}}}}}\n"
        "seeds: [1, 2, 3, 4, 5, 6, 7]\ntables: {accuracy: {rows: [], columns: [method]}}\nscales: {quick: {}}\n"
    )
    (folder / "space.yaml").write_text(
        f"title: Mine\ntunes: x\nbase: {{{base}, method.name: placed}}\n"
        "parameters: {method.x: {uniform: [0, 1]}}\ntrials: 2\nsuggestion_seeds: [1]\nseeds: [8]\nscales: {quick: {}}\n"
    )
    return folder


@pytest.fixture(scope="module")
def three_gpus(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLACED", str(folder / "placed"))
        yield from small_cluster(8, num_gpus=3)


@pytest.fixture
def places(folder: Path, three_gpus: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[tuple[str, str]]]:
    """Where trials were started, and with which share."""
    monkeypatch.chdir(folder)
    log = Path(os.environ["PLACED"])
    log.unlink(missing_ok=True)
    return lambda: [(gpu, share) for gpu, share in (line.split() for line in log.read_text().splitlines())]


OPTIONS = ("--no-try", "--import", "placed_plugin", "--gpus-per-trial", "0.25", "--set", "run.device=cpu")


def test_fewer_trials_than_fit_are_spread_over_all_gpus(
    places: Callable[[], list[tuple[str, str]]], command: Command
) -> None:
    together = ("--set", "method.together=4")
    code, _, error = command(main, "mine.yaml", "--out", "few", "--seeds", "1,2,3,4", *together, *OPTIONS)
    assert (code, error) == (0, "")
    assert sorted(Counter(gpu for gpu, _ in places()).values()) == [1, 1, 2]
    assert sorted(share for _, share in places()) == ["0.5", "0.5", "1", "1"]


def test_trials_that_wait_follow_where_others_have_ended(
    places: Callable[[], list[tuple[str, str]]], command: Command
) -> None:
    code, _, error = command(main, "mine.yaml", "--out", "capped", "--max-concurrent", "3", *OPTIONS)
    assert (code, error) == (0, "")
    assert len(places()) == 7
    assert {share for _, share in places()} == {"1"}, "three at a time, one on each GPU"


def test_suggestions_of_a_search_are_spread_too(places: Callable[[], list[tuple[str, str]]], command: Command) -> None:
    code, text, error = command(search, "space.yaml", "--out", "searched", "--sampler", "random", *OPTIONS)
    assert code == 0, text + error
    assert [share for _, share in places()[:2]] == ["1", "1"], "more than a quarter, since there are only two"
