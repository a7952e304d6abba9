import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def another_field(content: dict[str, Any]) -> None:
    content["state"]["momentum"] = None


def a_field_less(content: dict[str, Any]) -> None:
    del content["state"]["velocity"]


def another_column(content: dict[str, Any]) -> None:
    content["state"]["history"][0]["of_another_version"] = 1.0


def another_table(content: dict[str, Any]) -> None:
    content["state"]["history"][0]["tables"] = {"nobodys": ((1, 2),)}


def a_round_less(content: dict[str, Any]) -> None:
    content["state"]["history"].pop()


def another_model(content: dict[str, Any]) -> None:
    content["state"]["w"] = content["state"]["w"][:-1]


def other_numbers(content: dict[str, Any]) -> None:
    content["state"]["w"] = content["state"]["w"].double()


def a_client_less(content: dict[str, Any]) -> None:
    content["state"]["velocity"].pop()


def momentum_of_another_model(content: dict[str, Any]) -> None:
    content["state"]["velocity"][0] = content["state"]["velocity"][0][:-1]


def another_method(content: dict[str, Any]) -> None:
    content["state"]["method"] = {}


def no_state(content: dict[str, Any]) -> None:
    content["state"] = [1, 2]


def no_hash(content: dict[str, Any]) -> None:
    del content["hash"]


def another_format(content: dict[str, Any]) -> None:
    content["format"] = 2


def code(content: dict[str, Any]) -> None:
    content["state"] = Path("x")  # an object that torch does not read as plain data


WAYS = [another_field, a_field_less, another_column, another_table, a_round_less, another_model, other_numbers]
WAYS += [a_client_less, momentum_of_another_model, another_method, no_state, no_hash, another_format, code]


def sealed(content: object) -> bytes:
    """The bytes of a checkpoint, with a checksum that is right."""
    stream = io.BytesIO()
    torch.save(content, stream)
    return hashlib.sha256(stream.getvalue()).digest() + stream.getvalue()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_checkpoint_with_the_right_checksum_that_cannot_be_used_is_passed_over_for_the_one_before(
    tiny: Make, tmp_path: Path, way: Callable[[dict[str, Any]], None]
) -> None:
    config = tiny(rounds=6, method={"name": "fedavgm"})
    simulation = Simulation(config)
    for _ in range(3):
        simulation.step()
        checkpoint.save(simulation, tmp_path)
    older, newest = sorted(tmp_path.iterdir())
    content = torch.load(io.BytesIO(newest.read_bytes()[32:]), weights_only=True)
    way(content)
    newest.write_bytes(sealed(content))
    good = older.read_bytes()
    again = Simulation(config)
    (complaint,) = checkpoint.restore(again, tmp_path)
    assert str(newest) in complaint and "skipped" in complaint
    assert len(complaint.splitlines()) == 1
    assert again.state.round == 2
    assert older.read_bytes() == good
    for _ in range(2):
        again.step()
        checkpoint.save(again, tmp_path)
    usable = sorted(path.name for path in tmp_path.glob(checkpoint.PATTERN))
    assert usable == ["round-000003.ckpt", "round-000004.ckpt"], "two that can be used, as ever"
    third = Simulation(config)
    assert checkpoint.restore(third, tmp_path) == []
    assert third.state.round == 4


def test_without_a_usable_checkpoint_the_run_starts_anew(tiny: Make, tmp_path: Path) -> None:
    for name in ("round-000001.ckpt", "round-000002.ckpt"):
        (tmp_path / name).write_bytes(sealed([name]))
    simulation = Simulation(tiny())
    assert len(checkpoint.restore(simulation, tmp_path)) == 2
    assert simulation.state.round == 0
    assert not simulation.step().diverged


def test_too_little_memory_is_not_a_checkpoints_fault(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(tiny())
    simulation.step()
    path = checkpoint.save(simulation, tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patched, pytest.raises(torch.OutOfMemoryError):
        patched.setattr(torch, "load", fail)
        checkpoint.restore(Simulation(tiny()), tmp_path)
    assert list(tmp_path.iterdir()) == [path]
