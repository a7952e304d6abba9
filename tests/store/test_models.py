"""Final models beside the store's entries."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedbench import Simulation, TrialConfig, UserError
from fedbench.simulation.checkpoint import save
from fedbench.store.execute import execute
from fedbench.store.models import loaded_model
from fedbench.store.store import Store
from tests.helpers import Hear
from tests.simulation.test_module import SMALL, score

Make = Callable[..., TrialConfig]


@pytest.mark.parametrize("model", ["simple_cnn", "resnet8"])
def test_a_kept_model_scores_what_the_entry_says_and_is_no_part_of_it(tiny: Make, tmp_path: Path, model: str) -> None:
    config = tiny(model=model, rounds=2, **SMALL)
    stored = execute(config, Store(tmp_path / "with"), None, save_model=True)
    plain = execute(config, Store(tmp_path / "without"), None)
    assert (stored.hash, stored.sums.keys()) == (plain.hash, plain.sums.keys())
    assert stored.model == tmp_path / "with" / "models" / f"{config.hash}.pt"
    assert not plain.model.exists()
    module = loaded_model(stored.model, config)
    assert not module.training
    assert score(module, Simulation(config).federation.test)[0] == stored.summary["last_accuracy"]
    assert [trial.hash for trial in Store(tmp_path / "with").all()] == [config.hash]


def test_a_resumed_trial_keeps_the_model_of_a_whole_one(tiny: Make, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path / "halves")
    half = Simulation(config)
    half.step()
    save(half, store.checkpoints(config.hash))
    rounds: list[int] = []
    execute(config, store, None, [Hear(lambda _, record: rounds.append(record.round))], save_model=True)
    assert rounds == [2, 3]
    whole = execute(config, Store(tmp_path / "whole"), None, save_model=True)
    states = [torch.load(file, weights_only=True) for file in (store.model(config.hash), whole.model)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])


def test_a_model_beside_an_entry_is_never_that_of_an_earlier_run(tiny: Make, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path)
    execute(config, store, None, save_model=True)
    store.retire([config.hash])
    assert store.model(config.hash).is_file(), "nothing is removed before what replaces it is there"
    execute(config, store, None)
    assert not store.model(config.hash).exists()
    store.retire([config.hash])
    execute(config, store, None, save_model=True)
    assert store.model(config.hash).is_file()
    execute(config, store, None)
    assert store.model(config.hash).is_file(), "a trial that is found in the store keeps its model"


def test_a_diverged_trial_has_no_model(tiny: Make, tmp_path: Path) -> None:
    stored = execute(tiny(clients__lr=1e30), Store(tmp_path), None, save_model=True)
    assert stored.status == "diverged"
    assert not stored.model.exists()


def test_a_full_disk_while_the_model_is_written_leaves_no_entry_and_is_no_failure_of_the_trial(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("fedbench.store.store.write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            execute(tiny(), store, None, save_model=True)
    assert store.get(tiny().hash) is None
    assert execute(tiny(), store, None, save_model=True).model.is_file()


@pytest.mark.parametrize("content", [b"", b"PK", b"not a model"])
def test_a_damaged_model_is_one_clear_line(tiny: Make, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.pt"
    file.write_bytes(content)
    with pytest.raises(UserError, match="not the model of this trial, or damaged") as refused:
        loaded_model(file, tiny())
    assert "\n" not in str(refused.value)


def test_the_model_of_another_architecture_is_refused(tiny: Make, tmp_path: Path) -> None:
    stored = execute(tiny(), Store(tmp_path), None, save_model=True)
    with pytest.raises(UserError, match="not the model of this trial"):
        loaded_model(stored.model, tiny(model="simple_cnn"))
