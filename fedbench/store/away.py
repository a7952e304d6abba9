"""What a node keeps of trials whose store is on another machine: checkpoints, data sets, and files of trackers."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fedbench.config.naming import SHORT_HASH
from fedbench.data.base import Arrays
from fedbench.data.official import cache_dir, cached_in
from fedbench.store.leases import HeldElsewhereError, Lease, Watch

LOOK_SECONDS = 0.2


def node_folder(store: str) -> Path:
    """Return the folder in which a node keeps checkpoints for a store, known by its name, of another machine."""
    for root in (cache_dir(), Path(tempfile.gettempdir(), "fedbench")):
        folder = root / "away" / store
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        except OSError as problem:
            error = problem
    raise error


def tidy_node(store: str, ended: Mapping[str, str]) -> None:
    """Remove what this node keeps of trials that have ended: files of trackers, and checkpoints of finished trials.

    Checkpoints of trials that failed stay, since they are tried again. An empty folder is removed as a whole.
    """
    folder = node_folder(store)
    for hash_, status in ended.items():
        if status in ("done", "diverged"):
            shutil.rmtree(folder / "checkpoints" / hash_, ignore_errors=True)
        for path in folder.rglob(f"*{hash_[:SHORT_HASH]}*"):
            if path.relative_to(folder).parts[0] != "checkpoints":
                shutil.rmtree(path, ignore_errors=True)
                path.unlink(missing_ok=True)
    if not any((folder / "checkpoints").glob("*")):
        shutil.rmtree(folder, ignore_errors=True)


def tracked_files(folder: Path, hash_: str) -> dict[str, bytes]:
    """Return the files of trackers on a trial in a folder by their paths; their names have its short hash."""
    paths = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {
        place.as_posix(): path.read_bytes()
        for place, path in paths.items()
        if place.parts[0] != "checkpoints" and hash_[:SHORT_HASH] in place.as_posix()
    }


def cached_once(folder: Path, receive: Callable[[], Arrays]) -> Arrays:
    """Return arrays from a folder of the cache. If it is missing, one process of this node receives and writes it."""
    watch, lease = Watch(), folder.with_name(f".{folder.name}.lease")
    while not folder.is_dir():
        try:
            with Lease(lease):
                return cached_in(folder, receive)
        except HeldElsewhereError:
            watch.holder(lease)  # which removes it once it is stale
            time.sleep(LOOK_SECONDS)
        except OSError:  # there is no folder to write to: the arrays stay in memory
            break
    return cached_in(folder, receive)
