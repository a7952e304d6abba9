"""The result store: finished trials by the hash of their config. Tables read it, and nothing else.

An entry is a folder, or a pack of one (`base.packs`), which is what published results are.
"""

import errno
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedbench.base.errors import UserError
from fedbench.base.files import RESULTS, remove, scratch, sync, write_bytes, write_json, write_once
from fedbench.base.packs import LARGEST_FILE, SUFFIX
from fedbench.store.entry import (
    LIMITS,
    MARKER,
    SUMMARY,
    DamagedError,
    StoredTrial,
    look_up,
    model_path,
    read_file,
    read_rounds,
    scored_over,
    sha256_of,
)
from fedbench.store.mark import Status, read_mark

RETIRED = ".old-"  # before the name of an entry while its trial is run again

__all__ = ["MARKER", "RETIRED", "SUMMARY", "DamagedError", "Store", "StoredTrial", "read_rounds", "scored_over"]


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
        self._refused: set[str] = set()
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

    def model(self, hash_: str) -> Path:
        """Where the final model of a trial is, if a command was asked to keep it."""
        return model_path(self.out, hash_)

    def accept(self, hash_: str, files: Mapping[str, bytes], model: bytes | None) -> None:
        """Make files the entry of a trial (see `take`), and keep the final model, if there is one, beside it.

        A model beside an entry is always the entry's own: the model of an earlier run is removed, and where another
        process has stored the trial meanwhile, its entry and its model stay. OSError if either cannot be written.
        """
        there = look_up(self.where(hash_), hash_)[0]
        if there and there.status != "failed":
            self.settle(hash_)
            return
        aside = scratch(self.model(hash_))
        try:
            if model is not None:
                aside.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(aside, model)
            self.take(hash_, files)
            if model is not None:
                aside.replace(self.model(hash_))
            elif self.model(hash_).exists() and self.status(hash_) != "failed":
                self.model(hash_).unlink()
        finally:
            if model is not None:
                with suppress(OSError):  # the next command sweeps it
                    aside.unlink(missing_ok=True)

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
        if hash_ in self._refused:
            return None
        if hash_ not in self._sound:
            trial, complaint = look_up(self.where(hash_), hash_)
            if complaint and hash_ not in self.damaged:
                self.damaged.add(hash_)
                self.complaints.append(f"damaged entry {hash_[:12]} ({complaint}); it is run again by the next study")
            if trial is None or trial.status == "failed":  # a failed one may give way to another at any time
                return trial
            self._sound[hash_] = trial
        return self._sound[hash_]

    def leave_out(self, error: DamagedError) -> None:
        """Look the entry that raised an error up anew; if its files are as they were, it is left out from now on."""
        self._sound.pop(error.hash, None)
        if look_up(self.where(error.hash), error.hash)[0]:
            self._refused.add(error.hash)
            self.complaints.append(f"{error}; it is left out until {self.where(error.hash)} is removed")

    def status(self, hash_: str) -> str | None:
        """How a trial ended, as its mark says, without a look at its other files: for counting."""
        try:
            return read_mark(read_file(self.where(hash_) / MARKER)).status
        except (OSError, ValueError):
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
            if not look_up(entry, hash_)[1]:
                continue  # another command has mended it, or replaced it by a sound one
            target = self.out / "damaged" / f"{hash_}-{time.time_ns()}"
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                entry.rename(target)
                self.complaints.append(f"damaged entry {hash_[:12]} moved to {target}")
        self.damaged.clear()

    def retire(self, hashes: Iterable[str]) -> None:
        """Put finished entries out of sight, so that their trials are run again; see `settle` for their removal.

        Workers that have a copy of this folder's trials know it by its name, which changes.
        """
        self.name_file.unlink(missing_ok=True)
        for hash_ in hashes:
            self._sound.pop(hash_, None)
            if (trial := self.get(hash_)) and trial.status != "failed":
                self._sound.pop(hash_)
                remove(self.retired(hash_))
                with suppress(FileNotFoundError):  # another command is doing the same
                    trial.path.rename(self.retired(hash_))
            shutil.rmtree(self.checkpoints(hash_), ignore_errors=True)
        self.mend()

    def retired(self, hash_: str) -> Path:
        """Where the old entry of a trial is while it is run again."""
        return self.trials / f"{RETIRED}{hash_}"

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
        """Turn a written folder into the trial's entry: one that failed or is damaged gives way, any other one stays.

        What it replaces, and the trial's checkpoints, are removed only once the entry was read back and found sound.
        OSError where no sound entry is in place afterwards.
        """
        files = sorted(folder.iterdir())
        if large := [path.name for path in files if path.stat().st_size > LIMITS.get(path.name, LARGEST_FILE)]:
            raise UserError(f"{large[0]} has more bytes than a file of a stored trial may have ({LARGEST_FILE})")
        sums = {path.name: sha256_of(path) for path in files}
        for path in files:
            sync(path)
        content = {"hash": hash_, "status": status, "reason": reason, "summary": summary, "files": sums}
        write_json(folder / MARKER, content)
        self._sound.pop(hash_, None)
        self._put(folder, hash_)
        self.settle(hash_)

    def _put(self, folder: Path, hash_: str) -> None:
        """Rename a complete folder to the trial's entry, unless a finished one is there; OSError where that fails."""
        entry, failed = self.where(hash_), scratch(self.trials / f"failed-{hash_}")
        there, complaint = look_up(entry, hash_)
        if there and there.status != "failed":
            return
        if complaint:
            self.damaged.add(hash_)
            self.mend()
        with suppress(FileNotFoundError):  # there is none, or somebody else is replacing it, too
            entry.rename(failed)
        try:
            folder.rename(self.trials / hash_)
        except OSError:
            there, _ = look_up(self.where(hash_), hash_)
            if not there or there.status == "failed":
                with suppress(OSError):
                    failed.rename(entry)
                raise
            # somebody else was first, with the same bytes
        there, complaint = look_up(self.where(hash_), hash_)
        if not there:
            problem = complaint or "not there after it was written"
            raise OSError(errno.EIO, f"Entry cannot be read back ({problem})", str(entry))
        with suppress(OSError):
            remove(failed)

    def settle(self, hash_: str) -> None:
        """Remove a trial's checkpoints and its retired entry, if its entry is finished and, read back, sound."""
        left = [path for path in (self.retired(hash_), self.checkpoints(hash_)) if path.exists()]
        there = look_up(self.where(hash_), hash_)[0] if left else None
        for path in left if there and there.status != "failed" else ():
            with suppress(OSError):  # what is left is removed by the next command
                remove(path)

    def take(self, hash_: str, files: Mapping[str, bytes]) -> None:
        """Make files from elsewhere the entry of a trial; ValueError unless all are there and have their sums."""
        try:
            mark = read_mark(files[MARKER])
            wrong = [n for n, wanted in mark.files.items() if hashlib.sha256(files[n]).hexdigest() != wanted]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an entry ({error})") from error
        if wrong or mark.hash != hash_:
            raise ValueError("not what was sent")
        with self.entry(hash_) as folder:
            for name in mark.files:
                write_bytes(folder / name, files[name])
            self.commit(folder, hash_, mark.status, mark.reason, mark.summary)

    def put(self, hash_: str, pack: bytes) -> None:
        """Make a pack the entry of a trial."""
        self.trials.mkdir(parents=True, exist_ok=True)
        write_bytes(self.trials / f"{hash_}{SUFFIX}", pack)
        self._sound.pop(hash_, None)


def _writable(folder: Path) -> bool:
    """Whether a folder is to be written to: root may always, but goes by its mode like all others."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
