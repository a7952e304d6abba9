import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from fedbench import Simulation, TrialConfig, drive
from fedbench.store.folder import TrialFolder

Make = Callable[..., TrialConfig]


@pytest.fixture
def little_room() -> Iterator[None]:
    """No file may grow beyond 100 kB, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def save(config: TrialConfig, path: Path) -> None:
    with TrialFolder(path, config, save_model=True) as folder:
        drive(Simulation(config), [folder])


def test_the_final_model_is_written_whole(tiny: Make, tmp_path: Path) -> None:
    config = tiny(rounds=1)
    save(config, tmp_path)
    weights = torch.load(tmp_path / "model.pt", weights_only=True)
    assert sum(tensor.numel() for tensor in weights.values()) == len(Simulation(config).state.w)


def test_a_full_disk_leaves_no_half_of_a_model(tiny: Make, tmp_path: Path, little_room: None) -> None:
    with pytest.raises((OSError, RuntimeError)):
        save(tiny(rounds=1), tmp_path)
    assert not [path.name for path in tmp_path.iterdir() if "model" in path.name]
    assert not (tmp_path / "summary.json").exists()


def test_checkpoints_stay_and_no_summary_is_written_where_the_tables_do_not_get_to_the_disk(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, sync = tiny(rounds=1), os.fsync

    def fail(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("rounds.csv"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    checkpoint = tmp_path / "checkpoints" / "round-000001.ckpt"
    checkpoint.parent.mkdir()
    checkpoint.write_text("state")
    with pytest.raises(OSError, match="No space left"):
        save(config, tmp_path)
    assert checkpoint.exists()
    assert not (tmp_path / "summary.json").exists()
