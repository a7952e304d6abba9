"""Read files of any kind safely, write files atomically, and name them."""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import time
from functools import cache
from pathlib import Path
from typing import Any

from fedbench.base.errors import ConfigError, UserError

PACKED = ".json.xz"  # behind the name of a folder in one file: see `packs`
CHUNK = 2**20  # bytes that are read at a time
RESULTS = Path("results")  # where results are kept unless somebody says otherwise


def safe_name(text: str, allowed: str = "=,.-_") -> str:
    """Return a text as a file name: every character but letters, digits and the allowed ones becomes a dash."""
    return "".join(c if c.isalnum() or c in allowed else "-" for c in text)


@cache
def machine() -> str:
    """Return an id of the machine (and container) in which a process id is valid; empty on all systems but Linux.

    Containers of one machine count their processes each for themselves.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def located(key: str, path: Any, kinds: str) -> Path:
    """Return the absolute path of a file or folder that a setting names, looked for here and in $FEDBENCH_DATA.

    key: the setting; kinds: what it must be, for error messages.
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigError(f"{key} = {path!r}: must be {kinds}")
    given = Path(os.path.expanduser(path))
    roots = [Path.cwd(), *(Path(root) for root in [os.environ.get("FEDBENCH_DATA")] if root)]
    try:
        found = next((root / given for root in roots if (root / given).exists()), None)
    except OSError as error:
        raise UserError(f"{key} = {path}: {error.strerror}") from error
    if found is None:
        raise UserError(f"{key} = {path}: is not there; looked in {', '.join(map(str, roots))}")
    return found.resolve()


def scratch(path: Path) -> Path:
    """Return an unused temporary name beside a path, with the id of this process: see `sweep`."""
    return path.with_name(f".new-{path.name}-{_tag()}-{os.getpid()}-{time.time_ns()}")


def sweep(folder: Path) -> None:
    """Remove the temporary files in a folder of processes of this machine that have ended."""
    for path in folder.glob(f".new-*-{_tag()}-*"):
        owner = re.search(r"-(\d+)-\d+$", path.name)
        if owner and machine() and not Path("/proc", owner[1]).exists():
            remove(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _tag() -> str:
    """Return a short id of the machine."""
    return hashlib.sha256(machine().encode()).hexdigest()[:8]


def read_bytes(path: Path, most: int, *, links: bool = True) -> bytes:
    """Return the bytes of a file; OSError if it has more than `most` bytes, or is a pipe or a device.

    links: whether a symbolic link is followed; else it is an OSError, too.
    """
    descriptor = _opened(str(path), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), links=links)
    try:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        if about.st_size <= most:
            parts, left = list[bytes](), most + 1
            while left and (part := os.read(descriptor, min(left, CHUNK))):  # at once, it would take room for `most`
                parts.append(part)
                left -= len(part)
            if left:
                return b"".join(parts)
    finally:
        os.close(descriptor)
    raise OSError(errno.EFBIG, f"More than {most} bytes", str(path))


def _opened(path: str, flags: int, *, links: bool) -> int:
    """Return a descriptor of a file, without waiting for a writer if it is a pipe."""
    try:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | (0 if links else getattr(os, "O_NOFOLLOW", 0)))
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise OSError(errno.ELOOP, "A symbolic link", path) from None
        raise


def make_folder(folder: Path, name: str) -> None:
    """Create a folder; UserError, which begins with `name`, if it cannot be created or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = scratch(folder / "probe")
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise UserError(f"{name}: cannot be written ({error.strerror or error})") from error


def sync(path: Path) -> None:
    """Flush the bytes of a file to the disk; OSError if that fails."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file atomically (temporary name, sync, rename) and return its path."""
    half = scratch(path)
    try:
        with half.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    return path


def write_once(path: Path, content: bytes) -> bool:
    """Write a file that only its owner can read, unless it exists; return whether this call wrote it."""
    half = scratch(path)
    try:
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content)
        os.link(half, path)  # unlike a rename, never in place of one that is there
    except FileExistsError:
        return False
    finally:
        half.unlink(missing_ok=True)
    return True


def write_text(path: Path, content: str) -> Path:
    """Write a text atomically and return the path."""
    return write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> Path:
    """Write plain data as readable JSON and return the path; NaN and infinity are refused."""
    return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
