"""Finds, verifies and downloads the official files of data sets, and caches them as arrays."""

import gzip
import hashlib
import io
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedbench.base.errors import UserError
from fedbench.base.files import read_bytes
from fedbench.data.base import Arrays

CACHE_FORMAT = 1


@dataclass(frozen=True)
class Layout:
    """The files of a data set in one official format, and the folders that may contain them.

    `files` maps names to the accepted md5 sums of the file or of its uncompressed content; a file without sums is
    checked by its structure only. Each file may be compressed as NAME.gz, and has at most `largest` bytes uncompressed.
    """

    folders: Sequence[str]
    files: Mapping[str, Sequence[str]]
    read: Callable[[Mapping[str, bytes]], Arrays]
    largest: int = 2**28


@dataclass(frozen=True)
class LayoutFiles:
    """The paths of all files of a layout."""

    layout: Layout
    paths: Mapping[str, Path]

    @property
    def folder(self) -> Path:
        """The folder that contains the files."""
        return next(iter(self.paths.values())).parent


def cache_dir() -> Path:
    """The folder of downloads and caches: $FEDBENCH_CACHE, else $XDG_CACHE_HOME/fedbench or ~/.cache/fedbench."""
    if named := os.environ.get("FEDBENCH_CACHE"):
        return _expanded(named)
    return _expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "fedbench"


def named_folders(data_dir: Path | None, *, new: bool = False) -> list[Path]:
    """The folders of data sets that the user gave: the argument, then $FEDBENCH_DATA.

    Raise UserError if one does not exist, because another copy of the data would be read silently. If `new`, the
    first need not exist yet.
    """
    variable = os.environ.get("FEDBENCH_DATA")
    first = [_folder("data folder", data_dir, new=new)] if data_dir else []
    return [*first, _folder("$FEDBENCH_DATA", variable)] if variable else first


def check_data_dir(data_dir: Path | None) -> None:
    """Raise UserError if the option --data-dir names a folder that does not exist."""
    if data_dir:
        _folder("--data-dir", data_dir)


def _folder(what: str, path: str | Path, *, new: bool = False) -> Path:
    """A folder that the user gave. Raise UserError if it cannot be used; if `new`, it need not exist yet."""
    folder = _expanded(path)
    try:
        there, wrong = folder.exists(), folder.exists() and not folder.is_dir()
    except OSError as error:
        raise UserError(f"{what} {path}: {error.strerror}") from error
    if wrong:
        raise UserError(f"{what} {path}: is not a folder")
    if not there and not new:
        raise UserError(f"{what} {path}: does not exist; name the folder that contains the data sets")
    return folder


def _expanded(path: str | Path) -> Path:
    return Path(os.path.expanduser(path))  # Path.expanduser raises an error for unknown users


def find(layouts: Iterable[Layout], roots: Iterable[Path], *, strict: bool = False) -> LayoutFiles | None:
    """Find the first complete layout below the roots.

    If `strict`, an incomplete layout raises UserError with the missing files; otherwise, it is skipped.
    """
    for root in roots:
        partial: UserError | None = None
        for layout in layouts:
            for folder in (root / name for name in layout.folders):
                paths = {name: path for name in layout.files if (path := _existing(folder, name))}
                if len(paths) == len(layout.files):
                    return LayoutFiles(layout, paths)
                if paths:
                    missing = ", ".join(name for name in layout.files if name not in paths)
                    partial = partial or UserError(f"{folder}: {missing} is missing; put it beside {', '.join(paths)}")
        if partial and strict:
            raise partial
    return None


def _existing(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)


def read(found: LayoutFiles) -> Arrays:
    """Read and verify all files of a layout, then parse them."""
    layout = found.layout
    blobs = {name: _verified(path, layout.files[name], layout.largest) for name, path in found.paths.items()}
    try:
        return layout.read(blobs)
    except UserError as error:
        raise UserError(f"{found.folder}: {error}") from error


def _verified(path: Path, sums: Sequence[str], largest: int) -> bytes:
    """The uncompressed content of a file whose md5 is one of `sums`."""
    try:
        raw = read_bytes(path, largest)
        blob = unzipped(raw, largest) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read, truncated or not the official file ({error})") from error
    if sums and not {_md5(raw), _md5(blob)} & set(sums):
        raise UserError(f"{path}: md5 {_md5(blob)} is not that of the official file (truncated or altered?)")
    return blob


def unzipped(raw: bytes, most: int) -> bytes:
    """The content of a gzip file; an error if it has more than `most` bytes, without unpacking all of it."""
    with gzip.open(io.BytesIO(raw)) as stream:
        blob = stream.read(most + 1)
    if len(blob) > most:
        raise OSError(f"its content has more than {most} bytes")
    return blob


def _md5(blob: bytes) -> str:
    return hashlib.md5(blob, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Official:
    """The loader of a published data set, whose files are found locally or downloaded by torchvision.

    Files are searched in the user's folder, $FEDBENCH_DATA, the cache and then the `system` folders. A warning names
    the folder that is used if it is not the first that the user gave. Otherwise, torchvision downloads its data set
    `torchvision_name` or, where `urls` are given, the files at these addresses into the first folder of the layout.
    """

    name: str
    layouts: Sequence[Layout]
    torchvision_name: str = ""
    urls: Sequence[str] = ()
    system: Sequence[Path] = ()

    def __call__(self, data_dir: Path | None) -> Arrays:
        """Load the arrays, from the cache if these files were read before."""
        found = self.find(data_dir, download=True)
        return cached(self.name, found.paths.values(), lambda: read(found))

    def verify(self, data_dir: Path | None, *, download: bool) -> tuple[Arrays, str]:
        """Read the files without the cache. Return the arrays and the folder of the files."""
        found = self.find(data_dir, download=download, new=download)
        return read(found), str(found.folder)

    def find(self, data_dir: Path | None, *, download: bool, new: bool = False) -> LayoutFiles:
        """Find the files, or raise UserError with the searched folders. If `new`, `data_dir` need not exist yet."""
        named, others = named_folders(data_dir, new=new), [cache_dir() / "downloads", *self.system]
        if found := find(self.layouts, named, strict=True) or find(self.layouts, others):
            if named and not found.folder.is_relative_to(named[0]):
                text = f"data set '{self.name}' is not in the data folder {named[0]}; that in {found.folder} is used"
                warnings.warn(text, stacklevel=2)
            return found
        problem = "not downloaded"
        if download:
            target = named[0] if data_dir else cache_dir() / "downloads"
            problem = self._download(target) or f"downloaded to {target}, but the files are not there"
            if found := find(self.layouts, [target]):
                return found
        folders = " or ".join(f"DIR/{layout.folders[0]}/ ({', '.join(layout.files)})" for layout in self.layouts)
        raise UserError(
            f"data set '{self.name}' is not in {', '.join(map(str, [*named, *others]))} ({problem}); "
            f"put the official files{self._addresses} into {folders} and name DIR with --data-dir or $FEDBENCH_DATA"
        )

    @property
    def _addresses(self) -> str:
        return f" ({', '.join(self.urls)})" if self.urls else ""

    def _download(self, target: Path) -> str | None:
        """Download the files by torchvision and move them to `target`. Return a message if this fails."""
        try:
            from torchvision import datasets  # imported here because its wheel does not work with every build of torch
        except (ImportError, RuntimeError) as error:
            return f"cannot be downloaded, torchvision does not work beside this build of torch: {_first_line(error)}"
        try:
            with tempfile.TemporaryDirectory(prefix="fedbench-") as scratch:
                if not self.urls:
                    getattr(datasets, self.torchvision_name)(scratch, download=True)
                for url in self.urls:
                    datasets.utils.download_url(url, str(Path(scratch, self.layouts[0].folders[0])))
                install(Path(scratch), target)
        except Exception as error:  # torchvision raises many types, from RuntimeError to URLError
            return f"the download failed: {type(error).__name__}: {_first_line(error)}"
        return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0][:200]


def install(source: Path, target: Path) -> None:
    """Copy the content of `source` into `target` so that a concurrent reader never sees part of a file."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".new-") as scratch:
        complete = shutil.copytree(source, Path(scratch, "complete"))
        for entry in complete.iterdir():
            _move(entry, target / entry.name)


def _move(entry: Path, target: Path) -> None:
    """Rename a file or folder to `target`; if that is a folder already, move the content file by file."""
    try:
        entry.replace(target)
    except OSError:
        if not (entry.is_dir() and target.is_dir()):
            raise
        for part in entry.iterdir():
            _move(part, target / part.name)


def cached(name: str, sources: Iterable[Path], load: Callable[[], Arrays]) -> Arrays:
    """Load arrays through a cache of `.npy` files, which all processes of a machine share by copy-on-write mapping.

    The cache is keyed by the paths, sizes and modification times of the source files, so that a changed file is read
    and verified again.
    """
    signs = [f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}" for path in sources for stat in [path.stat()]]
    key = hashlib.sha256("\n".join([str(CACHE_FORMAT), *signs]).encode()).hexdigest()[:16]
    return cached_in(arrays_folder(name, key), load)


def arrays_folder(name: str, key: str) -> Path:
    """The folder in which the arrays of a data set are cached."""
    return cache_dir() / "arrays" / f"{name}-{key}"


def cached_in(folder: Path, load: Callable[[], Arrays]) -> Arrays:
    """Load arrays from a folder of the cache, and fill the folder first if it does not exist.

    If the folder cannot be written, the arrays stay in memory.
    """
    if not folder.is_dir():
        arrays = load()
        try:
            _store(folder, arrays)
        except OSError as error:
            warnings.warn(f"no array cache in {folder.parent}: {error}", stacklevel=2)
            return arrays
    try:
        paths = {field: folder / f"{field}.npy" for field in Arrays._fields}
        there = {field: path for field, path in paths.items() if path.exists() or field not in Arrays._field_defaults}
        return Arrays(**{field: np.load(path, mmap_mode="c") for field, path in there.items()})
    except (OSError, ValueError, EOFError):  # the cache is damaged: remove it
        shutil.rmtree(folder, ignore_errors=True)
        return load()


def _store(folder: Path, arrays: Arrays) -> None:
    """Write the arrays to a temporary folder, then rename it, so that a reader sees all of them or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as scratch:
        for field, array in arrays._asdict().items():
            if array is not None:
                np.save(Path(scratch, f"{field}.npy"), array)
        complete = Path(scratch, "complete")
        complete.mkdir()
        for file in Path(scratch).glob("*.npy"):
            file.rename(complete / file.name)
        try:
            complete.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise, another process has written the same arrays
                raise
