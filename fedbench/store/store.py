"""The result store: finished trials by the hash of their config. Tables read it, and nothing else.

An entry is a folder, or a pack of one (`base.packs`), which is what published results are.
"""

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedbench.base.errors import UserError
from fedbench.base.files import RESULTS, remove, scratch, write_bytes, write_json, write_once
from fedbench.base.packs import SUFFIX, read
from fedbench.config import LAST_ROUNDS

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["done", "diverged", "failed"]
MARKER, SUMMARY = "trial.json", "summary.json"


class DamagedError(UserError):
    """A file of the entry of trial `hash` is not what it was when the entry was looked up."""

    def __init__(self, hash_: str, name: str) -> None:
        super().__init__(f"damaged entry {hash_[:12]}: {name} has just changed; the same command again leaves it out")
        self.hash = hash_


@dataclass(frozen=True)
class StoredTrial:
    """One entry of the store: a run that finished, diverged, or failed with a reason. sums: its files' checksums."""

    hash: str
    status: Status
    reason: str | None
    summary: dict[str, Any]
    path: Path
    sums: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read(self, name: str) -> bytes:
        """A file of the entry; FileNotFoundError where it has none, DamagedError for another one than it had."""
        if name not in self.sums:
            raise FileNotFoundError(2, "No such file in the entry", str(self.path / name))
        try:
            content = read(self.path / name)
        except (OSError, ValueError) as error:
            raise DamagedError(self.hash, name) from error
        if hashlib.sha256(content).hexdigest() != self.sums[name]:
            raise DamagedError(self.hash, name)
        return content

    def table(self, name: str) -> "pd.DataFrame":
        """One of the run's CSV files (see `store.folder`), without its suffix; empty if there is none."""
        import pandas as pd

        try:
            return _table(self.read(f"{name}.csv")).copy()
        except FileNotFoundError:
            return pd.DataFrame()

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
            where = json.loads(self.read("environment.json"))
        except FileNotFoundError:
            return "unknown"
        threads = f"{where['threads']} thread{'s' * (where['threads'] != 1)}"
        return f"{where['device_name']}, {threads}, torch {where['torch']}, fedbench {where['fedbench']}"

    def files(self) -> dict[str, bytes]:
        """All files of the entry, its mark included."""
        return {MARKER: read(self.path / MARKER), **{name: self.read(name) for name in self.sums}}


class Store:
    """Trials under OUT/trials/HASH; an entry counts once its `trial.json`, written last, names all files' sums.

    There are no locks: an entry is made under a temporary name and renamed. Commands that run trials at the same time
    share them by leases (`store.leases`). Reading never writes: `complaints` tell what was met, and `mend` is for who
    runs trials.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.trials = out / "trials"
        self.complaints: list[str] = []
        self.damaged: set[str] = set()
        self._sound: dict[str, StoredTrial] = {}

    @property
    def reports(self) -> Path:
        """The folder for what is made of trials: their own or, where they are packs or it is read-only, another."""
        only_read = any(self.trials.glob(f"*{SUFFIX}")) or (self.out.is_dir() and not _writable(self.out))
        return RESULTS / self.out.resolve().name if only_read else self.out

    def where(self, hash_: str) -> Path:
        """Where the entry of a trial is, or would be."""
        pack = self.trials / f"{hash_}{SUFFIX}"
        return pack if pack.is_file() else self.trials / hash_

    def checkpoints(self, hash_: str) -> Path:
        """Where a running trial keeps its checkpoints."""
        return self.out / "checkpoints" / hash_

    def lease(self, hash_: str) -> Path:
        """The file that says who runs a trial, while somebody does."""
        return self.out / "leases" / hash_

    @property
    def name_file(self) -> Path:
        """Holds the folder's name, by which machines know it that do not see it."""
        return self.out / "checkpoints" / ".name"

    def name(self) -> str:
        """The folder's name, made if it has none; of many at a time, one makes it."""
        if not self.name_file.exists():
            self.name_file.parent.mkdir(parents=True, exist_ok=True)
            write_once(self.name_file, uuid.uuid4().hex.encode())
        return self.name_file.read_text()

    def check(self) -> None:
        """Say why the folders could never be made, if that can be seen without making them."""
        try:
            there = next(path for path in (self.trials, *self.trials.parents) if path.exists())
            reason = "" if there.is_dir() else "Not a directory"
        except OSError as error:
            reason = error.strerror or str(error)
        if reason:
            raise UserError(f"--out {self.out}: cannot be written ({reason})")

    def prepare(self) -> None:
        """Make the folders, or say clearly why that cannot be done."""
        try:
            self.trials.mkdir(parents=True, exist_ok=True)
            probe = scratch(self.trials / "probe")
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise UserError(f"--out {self.out}: cannot be written ({error.strerror or error})") from error

    def get(self, hash_: str) -> StoredTrial | None:
        """The entry of a trial, checked against its sums (once a command); a damaged one is reported, and not there."""
        if hash_ not in self._sound:
            trial, complaint = _looked_up(self.where(hash_), hash_)
            if complaint and hash_ not in self.damaged:
                self.damaged.add(hash_)
                self.complaints.append(f"damaged entry {hash_[:12]} ({complaint}); it is run again by the next study")
            if trial is None or trial.status == "failed":  # a failed one may give way to another at any time
                return trial
            self._sound[hash_] = trial
        return self._sound[hash_]

    def forget(self, hash_: str) -> None:
        """Look an entry up anew when it is asked for again."""
        self._sound.pop(hash_, None)

    def status(self, hash_: str) -> str | None:
        """How a trial ended, as its mark says, unchecked: for counting."""
        try:
            return str(json.loads(read(self.where(hash_) / MARKER))["status"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def finished(self, hashes: Iterable[str]) -> set[str]:
        """Those of the trials that need not be run again: done or diverged."""
        return {hash_ for hash_ in hashes if (trial := self.get(hash_)) and trial.status != "failed"}

    def all(self) -> Iterator[StoredTrial]:
        """Every sound entry."""
        for hash_ in sorted({path.name.removesuffix(SUFFIX) for path in self.trials.glob("[0-9a-f]*")}):
            if trial := self.get(hash_):
                yield trial

    def mend(self) -> None:
        """Move the damaged entries that were met aside, so that their trials can be run again: the runner's part."""
        for hash_ in sorted(self.damaged):
            entry = self.where(hash_)
            if not _looked_up(entry, hash_)[1]:
                continue  # another command has mended it, or replaced it by a sound one
            target = self.out / "damaged" / f"{hash_}-{time.time_ns()}"
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                entry.rename(target)
                self.complaints.append(f"damaged entry {hash_[:12]} moved to {target}")
        self.damaged.clear()

    def retire(self, hashes: Iterable[str]) -> None:
        """Put entries out of sight, so that their trials are run again; they are removed once the new ones exist.

        Workers that have a copy of this folder's trials know it by its name, which changes.
        """
        self.name_file.unlink(missing_ok=True)
        for hash_ in hashes:
            self._sound.pop(hash_, None)
            shutil.rmtree(self.checkpoints(hash_), ignore_errors=True)
            with suppress(FileNotFoundError):
                entry, old = self.where(hash_), self.retired(hash_)
                if entry.exists():
                    remove(old)
                    entry.rename(old)

    def retired(self, hash_: str) -> Path:
        """Where the old entry of a trial is while it is run again."""
        return self.trials / f".old-{hash_}"

    @contextmanager
    def entry(self, hash_: str) -> Iterator[Path]:
        """A temporary folder to write an entry's files into; thrown away unless `commit` took it."""
        folder = scratch(self.trials / hash_)
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
        self._sound.pop(hash_, None)
        if self.status(hash_) == "failed":
            aside = scratch(self.trials / f"failed-{hash_}")
            with suppress(OSError):  # somebody else is replacing it, too
                target.rename(aside)
                shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):  # somebody else was first, with the same bytes
            folder.rename(target)
        remove(self.retired(hash_))
        shutil.rmtree(self.checkpoints(hash_), ignore_errors=True)

    def take(self, hash_: str, files: Mapping[str, bytes]) -> None:
        """Make files from elsewhere the entry of a trial; ValueError unless all are there and have their sums."""
        try:
            marker = json.loads(files[MARKER])
            wrong = marker["hash"] != hash_ or any(
                Path(name).name != name or hashlib.sha256(files[name]).hexdigest() != wanted
                for name, wanted in marker["files"].items()
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not an entry ({error})") from error
        if wrong:
            raise ValueError("not what was sent")
        with self.entry(hash_) as folder:
            for name in marker["files"]:
                write_bytes(folder / name, files[name])
            self.commit(folder, hash_, marker["status"], marker["reason"], marker["summary"])

    def put(self, hash_: str, pack: bytes) -> None:
        """Make a pack the entry of a trial."""
        self.trials.mkdir(parents=True, exist_ok=True)
        write_bytes(self.trials / f"{hash_}{SUFFIX}", pack)
        self._sound.pop(hash_, None)


def _looked_up(entry: Path, hash_: str) -> tuple[StoredTrial | None, str]:
    """The entry at a path, if all its files have their sums; else what is wrong with it, empty if there is none."""
    if not entry.exists():
        return None, ""
    try:
        marker = json.loads(read(entry / MARKER))
        for name, wanted in marker["files"].items():
            if _sha256(entry / name) != wanted:
                raise ValueError(f"{name} does not have its checksum")
        if marker["hash"] != hash_:
            raise ValueError("it belongs to another trial")
        if SUMMARY in marker["files"] and not _agree(marker, json.loads(read(entry / SUMMARY))):
            raise ValueError(f"{MARKER} does not say what {SUMMARY} does")
        return StoredTrial(hash_, marker["status"], marker["reason"], marker["summary"], entry, marker["files"]), ""
    except FileNotFoundError as error:  # a file is missing; or another command is just replacing a failed entry
        return None, f"{Path(error.filename).name} is missing" if entry.exists() else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, str(error) or type(error).__name__


def _agree(marker: Mapping[str, Any], summary: Mapping[str, Any]) -> bool:
    """Whether an entry's mark, which has no checksum, says what its summary, which has one, does."""
    ended = all(marker[name] == summary.get(name, marker[name]) for name in ("status", "reason"))
    return ended and json.dumps(marker["summary"], sort_keys=True) == json.dumps(summary, sort_keys=True)


def _writable(folder: Path) -> bool:
    """Whether a folder is to be written to: root may always, but goes by its mode like all others."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)


@lru_cache(maxsize=256)
def _table(content: bytes) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_csv(BytesIO(content))


def _sha256(path: Path) -> str:
    return hashlib.sha256(read(path)).hexdigest()
