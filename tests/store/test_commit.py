"""Nothing is lost where an entry cannot be put in place: neither the result before it, nor the trial's checkpoints."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from fedbench.base.packs import packed
from fedbench.store.store import Store, sweep_store
from tests.analysis.helpers import summary
from tests.faults import Faults

HASH = "ab" * 32
ERRORS = pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT], ids=["EIO", "ENOSPC", "EDQUOT"])


def write(store: Store, accuracy: float, status: Any = "done") -> None:
    """Make and commit an entry."""
    with store.entry(HASH) as folder:
        (folder / "rounds.csv").write_text(f"round,test_accuracy,test_loss\n1,{accuracy},1.5\n")
        (folder / "summary.json").write_text(json.dumps(summary(accuracy)))
        store.commit(folder, HASH, status, None if status == "done" else "why", summary(accuracy))


def score(store: Store) -> float | None:
    """What somebody who comes now finds as the trial's score."""
    trial = Store(store.out).get(HASH)
    return trial.summary["final_accuracy"] if trial and trial.status == "done" else None


def retired_score(store: Store) -> float | None:
    """The score of the entry that was put out of sight, if it is whole."""
    other = Store(store.out / "elsewhere")
    if store.retired(HASH).exists():
        copytree(store.retired(HASH), other.trials / HASH)
    found = score(other)
    rmtree(other.trials, ignore_errors=True)
    return found


def fresh_run(out: Path) -> tuple[Store, Path]:
    """A store whose trial is run again: its old entry is out of sight, and the run has a checkpoint."""
    store = Store(out)
    write(store, 0.25)
    store.retire([HASH])
    checkpoint = store.checkpoints(HASH) / "round-000001.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("state")
    return store, checkpoint


@ERRORS
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_whichever_call_of_a_commit_fails_there_is_the_new_entry_or_the_old_one_and_the_checkpoints(
    faults: Faults, tmp_path: Path, number: int, lasting: bool
) -> None:
    outcomes = set[str]()
    for at in range(500):
        store, checkpoint = fresh_run(tmp_path / str(at))
        raised = None
        with faults.armed(store.out, number, at, lasting=lasting) as struck:
            try:
                write(store, 0.5)
            except OSError as error:
                raised = error
        if not struck.struck:
            break
        where = f"call {at}, {struck.calls[at]}: "
        if raised is None:
            assert score(store) == 0.5, f"{where}said to be stored, and it is not"
            outcomes.add("stored")
        else:
            assert raised.errno in (number, errno.EIO) and raised.filename, where
            assert score(store) == 0.5 or retired_score(store) == 0.25, f"{where}the old result is lost"
            assert score(store) == 0.5 or checkpoint.exists(), f"{where}the checkpoint is lost"
            outcomes.add("lost nothing")
    assert outcomes == {"stored", "lost nothing"}, "faults before the entry is in place, and after it"
    assert at > 10


@ERRORS
def test_a_rename_that_fails_is_an_error_and_the_next_run_stores_the_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    store, checkpoint = fresh_run(tmp_path)
    rename = os.rename

    def fail(source: Any, target: Any, **how: Any) -> None:
        if Path(target) == store.trials / HASH:
            raise OSError(number, os.strerror(number), str(target))
        rename(source, target, **how)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", fail)
        with pytest.raises(OSError, match=os.strerror(number)):
            write(store, 0.5)
    assert (score(store), retired_score(store), checkpoint.exists()) == (None, 0.25, True)
    write(store, 0.5)
    assert (score(store), retired_score(store), checkpoint.exists()) == (0.5, None, False)
    assert [path.name for path in store.trials.iterdir()] == [HASH]


def test_bytes_that_do_not_get_to_the_disk_are_an_error_and_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store, checkpoint = fresh_run(tmp_path)
    for failing in (0, 1, 2):  # every file of the entry, its mark included
        left = iter(range(9))

        def fail(descriptor: int, left: Iterator[int] = left, failing: int = failing) -> None:
            if next(left) == failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            write(store, 0.5)
        assert (score(store), retired_score(store), checkpoint.exists()) == (None, 0.25, True)


def test_an_entry_that_does_not_read_back_replaces_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store, checkpoint = fresh_run(tmp_path)
    rename = os.rename

    def scramble(source: Any, target: Any, **how: Any) -> None:
        rename(source, target, **how)
        if Path(target) == store.trials / HASH:
            Path(target, "rounds.csv").write_bytes(b"\0" * 40)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", scramble)
        with pytest.raises(OSError, match=r"cannot be read back \(rounds.csv does not have its checksum\)"):
            write(store, 0.5)
    assert (score(store), retired_score(store), checkpoint.exists()) == (None, 0.25, True)
    write(store, 0.5)
    assert (score(store), retired_score(store), checkpoint.exists()) == (0.5, None, False)
    assert len(list((tmp_path / "damaged").iterdir())) == 1, "the damaged one has given way"


def test_a_run_that_fails_keeps_checkpoints_and_the_result_before_it(tmp_path: Path) -> None:
    store, checkpoint = fresh_run(tmp_path)
    write(store, 0.5, "failed")
    assert store.status(HASH) == "failed"
    assert (retired_score(store), checkpoint.exists()) == (0.25, True)
    store.retire([HASH])  # --fresh again: what failed is not worth keeping in place of a result
    assert retired_score(store) == 0.25
    write(store, 0.5)
    assert (score(store), retired_score(store)) == (0.5, None)


def test_a_failed_pack_gives_way_to_a_result(tmp_path: Path) -> None:
    store = Store(tmp_path)
    mark = {"hash": HASH, "status": "failed", "reason": "why", "summary": {}, "files": {}}
    store.put(HASH, packed({"trial.json": json.dumps(mark).encode()}))
    assert store.status(HASH) == "failed"
    write(store, 0.5)
    assert score(store) == 0.5


def test_checkpoints_and_a_retired_entry_stay_while_the_new_one_is_damaged(tmp_path: Path) -> None:
    store, checkpoint = fresh_run(tmp_path)
    kept = [path.rename(path.with_name(f"kept{n}")) for n, path in enumerate([store.retired(HASH), checkpoint.parent])]
    write(store, 0.5)
    for path, place in zip(kept, [store.retired(HASH), checkpoint.parent], strict=True):
        path.rename(place)
    rounds = store.trials / HASH / "rounds.csv"
    sound = rounds.read_text()
    rounds.write_text("{")
    sweep_store(Store(tmp_path), [HASH])
    assert (retired_score(store), checkpoint.exists()) == (0.25, True)
    rounds.write_text(sound)
    sweep_store(Store(tmp_path), [HASH])
    assert (score(store), retired_score(store), checkpoint.exists()) == (0.5, None, False)


def test_a_retirement_that_fails_loses_neither_the_entry_nor_its_checkpoints(faults: Faults, tmp_path: Path) -> None:
    for at in range(100):
        store = Store(tmp_path / str(at))
        write(store, 0.25)
        store.checkpoints(HASH).mkdir(parents=True)
        with faults.armed(store.out, errno.EIO, at, writes=True) as struck:
            try:
                store.retire([HASH])
                failed = False
            except OSError:
                failed = True
        assert 0.25 in (score(store), retired_score(store)), struck.calls
        assert not failed or score(store) is None or store.checkpoints(HASH).exists(), struck.calls
        if not struck.struck:
            break
    assert at > 1
