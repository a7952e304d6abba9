from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedbench import TrialConfig, simulate
from fedbench.simulation import Simulation, checkpoint
from tests.conftest import timeless

Make = Callable[..., TrialConfig]
PARTIAL = {"clients__participation": 0.6, "rounds": 4}
SERVER_SGD = {"name": "server_ft", "optimizer": "sgd", "optimizer_state": "keep", "lr": None}


@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        PARTIAL,
        {**PARTIAL, "model": "resnet8", "bn": "proxy", "data__train_size": 60},
        {**PARTIAL, "clients__momentum_state": "reset"},
        {**PARTIAL, "clients__train": "all", "method": SERVER_SGD},
    ],
)
def test_a_resumed_run_is_bit_for_bit_the_uninterrupted_one(
    tiny: Make, tmp_path: Path, stop: int, settings: dict[str, object]
) -> None:
    config = tiny(**settings)
    whole = timeless(list(simulate(config)))
    first = Simulation(config)
    for _ in range(stop):
        first.step()
    checkpoint.save(first, tmp_path)
    second = Simulation(config)
    assert checkpoint.restore(second, tmp_path) == []
    assert second.state.round == stop
    while not second.done:
        second.step()
    assert timeless(second.state.history) == whole


def test_the_last_two_are_kept_and_a_damaged_one_is_passed_over(tiny: Make, tmp_path: Path) -> None:
    simulation = Simulation(tiny())
    for _ in range(3):
        simulation.step()
        checkpoint.save(simulation, tmp_path)
    older, newest = sorted(tmp_path.iterdir())
    assert [older.name, newest.name] == ["round-000002.ckpt", "round-000003.ckpt"]
    blob = bytearray(newest.read_bytes())
    blob[len(blob) // 2] ^= 1
    newest.write_bytes(blob)
    again = Simulation(tiny())
    (complaint,) = checkpoint.restore(again, tmp_path)
    assert newest.name in complaint
    assert again.state.round == 2


@pytest.mark.parametrize("content", [b"", b"short", bytes(100)])
def test_rubbish_is_passed_over_and_the_run_starts_anew(tiny: Make, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "round-000002.ckpt").write_bytes(content)
    simulation = Simulation(tiny())
    assert len(checkpoint.restore(simulation, tmp_path)) == 1
    assert simulation.state.round == 0


def test_a_checkpoint_of_another_experiment_is_not_used(tiny: Make, tmp_path: Path) -> None:
    other = Simulation(tiny(seed=9))
    other.step()
    checkpoint.save(other, tmp_path)
    simulation = Simulation(tiny())
    before = simulation.state.w.clone()
    assert len(checkpoint.restore(simulation, tmp_path)) == 1
    assert torch.equal(simulation.state.w, before)
