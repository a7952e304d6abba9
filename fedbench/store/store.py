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
from fedbench.base.files import RESULTS, make_folder, remove, scratch, sweep, sync, write_bytes, write_json, write_once
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
from fedbench.store.leases import dead, drop, read
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
        """Return the folder for reports: this one or, if it holds packs or is read-only, another one."""
        only_read = any(self.trials.glob(f"*{SUFFIX}")) or (self.out.is_dir() and not _writable(self.out))
        return RESULTS / self.out.resolve().name if only_read else self.out

    def where(self, hash_: str) -> Path:
        """Return the path that the entry of a trial has, or would have."""
        pack = self.trials / f"{hash_}{SUFFIX}"
        return pack if pack.is_file() else self.trials / hash_

    def checkpoints(self, hash_: str) -> Path:
        """Return the folder for the checkpoints of a running trial."""
        return self.out / "checkpoints" / hash_

    def model(self, hash_: str) -> Path:
        """Return the path of the final model of a trial, which exists if it was run with --save-model."""
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
        """Return the path of the lease of a trial, which exists while a process runs the trial."""
        return self.out / "leases" / hash_

    @property
    def name_file(self) -> Path:
        """Return the path of the file with the folder's name, by which machines know it that do not share it."""
        return self.out / "checkpoints" / ".name"

    def name(self) -> str:
        """Return the folder's name, which is created if it has none; of several processes at a time, one creates it."""
        if not self.name_file.exists():
            self.name_file.parent.mkdir(parents=True, exist_ok=True)
            write_once(self.name_file, uuid.uuid4().hex.encode())
        return self.name_file.read_text()

    def check(self) -> None:
        """Raise UserError if it can be seen, without creating anything, that the folders cannot be created."""
        try:
            there = next(path for path in (self.trials, *self.trials.parents) if path.exists())
            reason = "" if there.is_dir() else "Not a directory"
        except OSError as error:
            reason = error.strerror or str(error)
        if reason:
            raise UserError(f"--out {self.out}: cannot be written ({reason})")

    def prepare(self) -> None:
        """Create the folders; UserError with the reason if they cannot be written to."""
        make_folder(self.trials, f"--out {self.out}")

    def get(self, hash_: str) -> StoredTrial | None:
        """Return the entry of a trial, verified once per command; None if there is none.

        A damaged entry counts as none, and is added to `complaints`.
        """
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
        """Look the entry that raised an error up again; if its files are unchanged, ignore it from now on."""
        self._sound.pop(error.hash, None)
        if look_up(self.where(error.hash), error.hash)[0]:
            self._refused.add(error.hash)
            self.complaints.append(f"{error}; it is left out until {self.where(error.hash)} is removed")

    def status(self, hash_: str) -> str | None:
        """Return how a trial ended by its mark, without a look at its other files; None if it has no entry."""
        try:
            return read_mark(read_file(self.where(hash_) / MARKER)).status
        except (OSError, ValueError):
            return None

    def finished(self, hashes: Iterable[str]) -> set[str]:
        """Return those of the trials that need not be run again: done or diverged."""
        return {hash_ for hash_ in hashes if (trial := self.get(hash_)) and trial.status != "failed"}

    def all(self) -> Iterator[StoredTrial]:
        """Yield every valid entry."""
        for hash_ in sorted({path.name.removesuffix(SUFFIX) for path in self.trials.glob("[0-9a-f]*")}):
            if trial := self.get(hash_):
                yield trial

    def mend(self) -> None:
        """Move the damaged entries that were found to another folder, so that their trials are run again."""
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
        """Move finished entries aside, so that their trials are run again; `settle` removes them afterwards.

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
        """Return the path of the old entry of a trial while the trial is run again."""
        return self.trials / f"{RETIRED}{hash_}"

    @contextmanager
    def entry(self, hash_: str) -> Iterator[Path]:
        """Yield a temporary folder for the files of an entry; it is removed unless `commit` took it."""
        folder = scratch(self.trials / hash_)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(self, folder: Path, hash_: str, status: Status, reason: str | None, summary: dict[str, Any]) -> None:
        """Turn a written folder into the trial's entry; it replaces a failed or damaged one, but never a finished one.

        The replaced entry and the trial's checkpoints are removed only after the new entry was read back and verified.
        Raise OSError if no valid entry is in place afterwards.
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
        """Remove the checkpoints and the retired entry of a trial if its entry, read back, is valid and finished."""
        left = [path for path in (self.retired(hash_), self.checkpoints(hash_)) if path.exists()]
        there = look_up(self.where(hash_), hash_)[0] if left else None
        for path in left if there and there.status != "failed" else ():
            with suppress(OSError):  # what is left is removed by the next command
                remove(path)

    def take(self, hash_: str, files: Mapping[str, bytes]) -> None:
        """Make files that were sent the entry of a trial; ValueError unless all are present with their checksums."""
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
        """Store a pack as the entry of a trial."""
        self.trials.mkdir(parents=True, exist_ok=True)
        write_bytes(self.trials / f"{hash_}{SUFFIX}", pack)
        self._sound.pop(hash_, None)


def _writable(folder: Path) -> bool:
    """Return whether a folder can be written to; its mode applies to root, too."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)


def sweep_store(store: Store, hashes: Iterable[str], reports: Iterable[Path] = ()) -> None:
    """Remove temporary files of processes that have ended, and what finished trials no longer need.

    Files of other machines that share the folder are left alone: whether their processes have ended is unknown.
    """
    folders = [store.out / name for name in ("trials", "models", "leases", "checkpoints")]
    for folder in (store.out, *folders, *reports):
        sweep(folder)
    for hash_ in _with_leftovers(store).intersection(hashes):
        lease = store.lease(hash_)
        holder = read(lease)
        if holder and dead(holder):
            drop(lease, holder)
        if not read(lease):
            store.settle(hash_)


def _with_leftovers(store: Store) -> set[str]:
    """Return the hashes of trials that have a lease, checkpoints or a retired entry."""
    retired = {path.name.removeprefix(RETIRED) for path in store.trials.glob(f"{RETIRED}*")}
    return retired.union(*({path.name for path in (store.out / name).glob("*")} for name in ("leases", "checkpoints")))
