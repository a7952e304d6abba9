import os
import time
from collections.abc import Callable
from pathlib import Path

from fedbench.store.leases import Lease
from fedbench.store.store import Store
from tests.commands import clean as main
from tests.store.test_commit import HASH, write

Command = Callable[..., tuple[int, str, str]]


def old(path: Path) -> Path:
    """A file that nobody has touched for an hour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    for each in (path, path.parent):
        os.utime(each, (time.time() - 3600,) * 2)
    return path


def test_what_is_no_result_goes_and_results_stay(tmp_path: Path, command: Command) -> None:
    names = ("ray/a/x", "checkpoints/h/x", "leases/h", "damaged/h/x", "trials/.new-h/x")
    gone = [old(tmp_path / name) for name in names]
    kept = old(tmp_path / "trials" / "abc" / "trial.json")
    code, text, _ = command(main, "--out", str(tmp_path), "--dry-run")
    assert (code, all(path.exists() for path in gone)) == (0, True)
    code, text, _ = command(main, "--out", str(tmp_path))
    assert (code, any(path.exists() for path in gone)) == (0, False)
    assert kept.exists()
    assert len(text.splitlines()) == 5


def test_what_a_run_may_be_using_is_kept(tmp_path: Path, command: Command) -> None:
    live = tmp_path / "checkpoints" / "h" / "round-000003.ckpt"
    live.parent.mkdir(parents=True)
    live.write_text("x")
    code, text, _ = command(main, "--out", str(tmp_path))
    assert (code, live.exists()) == (0, True)
    assert "kept, since a run may be using it" in text


def test_checkpoints_of_a_trial_that_somebody_runs_are_kept_however_long_its_rounds_are(
    tmp_path: Path, command: Command
) -> None:
    checkpoint = old(tmp_path / "checkpoints" / "h" / "round-000003.ckpt")
    with Lease(tmp_path / "leases" / "h"):
        assert command(main, "--out", str(tmp_path))[0] == 0
        assert checkpoint.exists()
    assert command(main, "--out", str(tmp_path))[0] == 0
    assert not checkpoint.exists()


def test_a_folder_that_is_not_there_and_a_file_are_said(tmp_path: Path, command: Command) -> None:
    code, _, error = command(main, "--out", str(tmp_path / "typo"))
    assert (code, "is not there; name a folder with results" in error) == (2, True)
    (tmp_path / "file").write_text("")
    code, _, error = command(main, "--out", str(tmp_path / "file"))
    assert (code, "is a file; name a folder with results" in error) == (2, True)


def aged(folder: Path) -> None:
    """Nobody has touched anything in a folder for an hour."""
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (time.time() - 3600,) * 2)


def test_a_retired_entry_goes_once_a_sound_one_has_taken_its_place_and_not_before(
    tmp_path: Path, command: Command
) -> None:
    store = Store(tmp_path)
    write(store, 0.25)
    store.retire([HASH])
    aged(tmp_path)
    code, text, _ = command(main, "--out", str(tmp_path))
    assert (code, store.retired(HASH).is_dir()) == (0, True)
    assert f"{store.retired(HASH)}: kept, since it is the only result of its trial" in text
    kept = store.retired(HASH).rename(tmp_path / "kept")
    write(store, 0.5)
    kept.rename(store.retired(HASH))  # as a command that was killed just then leaves it
    aged(tmp_path)
    (store.trials / HASH / "rounds.csv").rename(tmp_path / "aside")
    command(main, "--out", str(tmp_path))
    assert store.retired(HASH).is_dir(), "what has taken its place is damaged"
    (tmp_path / "aside").rename(store.trials / HASH / "rounds.csv")
    aged(tmp_path)
    with Lease(tmp_path / "leases" / HASH):
        command(main, "--out", str(tmp_path))
        assert store.retired(HASH).is_dir(), "a run may be using it"
    code, text, _ = command(main, "--out", str(tmp_path))
    assert (code, store.retired(HASH).exists()) == (0, False)
    assert [path.name for path in store.trials.iterdir()] == [HASH]
