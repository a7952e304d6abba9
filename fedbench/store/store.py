"""The result store: finished trials by the hash of their config. Tables read it, and nothing else."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedbench.base.errors import UserError
from fedbench.base.files import write_json
from fedbench.config import LAST_ROUNDS

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["done", "diverged", "failed"]
MARKER = "trial.json"


@dataclass(frozen=True)
class StoredTrial:
    """One entry of the store: a run that finished, diverged, or failed with a reason."""

    hash: str
    status: Status
    reason: str | None
    summary: dict[str, Any]
    path: Path

    def table(self, name: str) -> "pd.DataFrame":
        """One of the run's CSV files (see `store.folder`), without its suffix; empty if there is none."""
        import pandas as pd

        path = self.path / f"{name}.csv"
        return pd.read_csv(path) if path.is_file() else pd.DataFrame()

    def scored_over(self, rounds: int) -> "StoredTrial":
        """The same trial, its final score the mean of so many last rounds (of those that were scored)."""
        if self.status != "done" or rounds == LAST_ROUNDS:
            return self
        table = self.table("rounds")
        last = table[table["round"] > table["round"].max() - rounds]
        scores = {f"final_{name}": float(last[f"test_{name}"].mean()) for name in ("accuracy", "loss")}
        return replace(self, summary={**self.summary, **scores})

    def environment(self) -> str:
        """Where it ran, in one line: what may make its bytes differ from another's."""
        try:
            where = json.loads((self.path / "environment.json").read_text())
        except OSError:
            return "unknown"
        return (
            f"{where['device_name']}, {where['threads']} threads, torch {where['torch']}, fedbench {where['fedbench']}"
        )


class Store:
    """Trials under OUT/trials/HASH; an entry counts once its `trial.json`, written last, names all files' sums.

    There are no locks: an entry is made under a temporary name and renamed. Two drivers may do work twice, never
    wrongly.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.trials = out / "trials"
        self.complaints: list[str] = []

    def checkpoints(self, hash_: str) -> Path:
        """Where a running trial keeps its checkpoints."""
        return self.out / "checkpoints" / hash_

    def prepare(self) -> None:
        """Make the folders, or say clearly why that cannot be done."""
        try:
            self.trials.mkdir(parents=True, exist_ok=True)
            probe = self.trials / f".probe-{os.getpid()}"
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise UserError(f"--out {self.out}: cannot be written ({error.strerror or error})") from error

    def get(self, hash_: str) -> StoredTrial | None:
        """The entry of a trial, checked against its sums; a damaged one is moved aside, reported, and not there."""
        folder = self.trials / hash_
        if not folder.is_dir():
            return None
        try:
            marker = json.loads((folder / MARKER).read_text())
            for name, wanted in marker["files"].items():
                if _sha256(folder / name) != wanted:
                    raise ValueError(f"{name} does not have its checksum")
            if marker["hash"] != hash_:
                raise ValueError("it belongs to another trial")
            return StoredTrial(hash_, marker["status"], marker["reason"], marker["summary"], folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._move_aside(folder, error)
            return None

    def finished(self, hashes: Iterable[str]) -> set[str]:
        """Those of the trials that need not be run again: done or diverged."""
        return {hash_ for hash_ in hashes if (trial := self.get(hash_)) and trial.status != "failed"}

    def all(self) -> Iterator[StoredTrial]:
        """Every sound entry."""
        for folder in sorted(self.trials.glob("[0-9a-f]*")):
            if trial := self.get(folder.name):
                yield trial

    def _move_aside(self, folder: Path, error: Exception) -> None:
        target = self.out / "damaged" / f"{folder.name}-{time.time_ns()}"
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
        self.complaints.append(f"damaged entry {folder.name[:12]} ({error}); moved to {target}, it is run again")

    def forget(self, hashes: Iterable[str]) -> None:
        """Remove entries and checkpoints, so that their trials are run again."""
        for hash_ in hashes:
            shutil.rmtree(self.trials / hash_, ignore_errors=True)
            shutil.rmtree(self.checkpoints(hash_), ignore_errors=True)

    @contextmanager
    def entry(self, hash_: str) -> Iterator[Path]:
        """A temporary folder to write an entry's files into; thrown away unless `commit` took it."""
        folder = self.trials / f".new-{hash_}-{os.getpid()}-{time.time_ns()}"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(self, folder: Path, hash_: str, status: Status, reason: str | None, summary: dict[str, Any]) -> None:
        """Turn a written folder into the trial's entry; a failed one gives way, any other one stays."""
        sums = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
        content = {"hash": hash_, "status": status, "reason": reason, "summary": summary, "files": sums}
        write_json(folder / MARKER, content)
        target = self.trials / hash_
        present = self.get(hash_)
        if present and present.status == "failed":
            shutil.rmtree(target)
        with suppress(OSError):  # somebody else was first, with the same bytes
            folder.rename(target)
        shutil.rmtree(self.checkpoints(hash_), ignore_errors=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
