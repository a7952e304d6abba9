"""Checkpoints in a file system of any kind, beside the folder in which a run keeps them."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fedbench.base.errors import UserError
from fedbench.base.files import write_bytes
from fedbench.simulation import Callback, Record, Simulation
from fedbench.simulation.checkpoint import PATTERN

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def check_place(uri: str) -> str:
    """Return the URI of a place for checkpoints in a form that every machine understands.

    UserError if it cannot be used.
    """
    uri = uri if "://" in uri else str(Path(uri).expanduser().absolute())
    try:
        files, path = opened(uri)
        files.get_file_info(path)
    except Exception as error:  # pyarrow's, fsspec's, and those of what they import
        raise UserError(f"--checkpoints {uri}: cannot be used ({first_line(error)})") from error
    return uri


@lru_cache
def opened(uri: str) -> "tuple[FileSystem, str]":
    """Return the file system of a URI, pyarrow's own or else fsspec's, and the path in it."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    try:
        return FileSystem.from_uri(uri)  # type: ignore[no-any-return]
    except ArrowInvalid:  # not one of its own
        from fsspec.core import url_to_fs

        files, path = url_to_fs(uri)
        return PyFileSystem(FSSpecHandler(files)), str(path)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def forget(uri: str | None, hashes: Iterable[str]) -> None:
    """Remove the checkpoints of trials from a second place, if there is one and it has any."""
    for hash_ in hashes if uri else ():
        files, root = opened(str(uri))
        with suppress(OSError):
            files.delete_dir(f"{root}/{hash_}")


class Mirror(Callback[Simulation, Record]):
    """Copies the checkpoints of a run to a second place, URI/HASH, from which another machine can go on.

    A context manager around the whole run. If the second place fails, only progress is lost: `warn` is called, once.
    """

    def __init__(self, uri: str, hash_: str, folder: Path, warn: Callable[[str], Any]) -> None:
        self.uri, self.hash, self.folder, self.warn = uri, hash_, folder, warn
        self._fetched: bool | None = None  # whether that went well; until then nothing is known of the second place
        self._seen: dict[str, int] | None = None  # what both places had in common when that was known
        self._warned = False

    def fetch(self) -> None:
        """Copy newer checkpoints from the second place; call it before a run is restored."""
        self._fetched = False
        try:
            (files, place), there, here = self._place(), self._there(), self._here()
            for name in there:
                if not here or name > max(here):
                    with files.open_input_stream(f"{place}/{name}") as stream:
                        content = stream.read()
                    self.folder.mkdir(parents=True, exist_ok=True)
                    write_bytes(self.folder / name, content)
            self._fetched, self._seen = True, there if there == self._here() else None
        except Exception as error:  # whatever file systems raise
            self._complain(error)

    def round(self, run: Simulation, seen: Record) -> None:
        """Copy a checkpoint that was just written; this callback belongs behind the one that writes them."""
        self._sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sync()

    def _sync(self) -> None:
        """Make the second place equal to the first; a run that has ended has no checkpoints."""
        here = self._here()
        if self._fetched is None or here == self._seen:
            return
        try:
            (files, place), there = self._place(), self._there()
            for name in sorted(name for name, size in here.items() if there.get(name) != size):
                files.create_dir(place)
                with files.open_output_stream(f"{place}/{name}") as stream:
                    stream.write((self.folder / name).read_bytes())
            if self._fetched:
                self._forget(there.keys() - here.keys(), everything=not here)
            self._seen = here
        except Exception as error:  # whatever file systems raise
            self._complain(error)

    def _forget(self, names: Collection[str], *, everything: bool) -> None:
        files, place = self._place()
        for name in names:
            files.delete_file(f"{place}/{name}")
        if names and everything:
            files.delete_dir(place)

    def _complain(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            self.warn(f"--checkpoints {self.uri}: cannot be used ({first_line(error)})")

    def _place(self) -> "tuple[FileSystem, str]":
        files, root = opened(self.uri)
        return files, f"{root}/{self.hash}"

    def _here(self) -> dict[str, int]:
        """Return the sizes of the checkpoints in the folder, by name."""
        return {path.name: path.stat().st_size for path in self.folder.glob(PATTERN)}

    def _there(self) -> dict[str, int]:
        """Return the sizes of the checkpoints in the second place, by name."""
        from pyarrow.fs import FileSelector

        files, place = self._place()
        found = files.get_file_info(FileSelector(place, allow_not_found=True))
        return {info.base_name: info.size for info in found if Path(info.base_name).match(PATTERN)}
