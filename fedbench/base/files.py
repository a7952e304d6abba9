"""Reading files that may be anything; writing them so that nobody meets half of one; and naming them."""

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
    """A text as the name of a file or folder: every character but letters, digits and the allowed ones is a dash."""
    return "".join(c if c.isalnum() or c in allowed else "-" for c in text)


@cache
def machine() -> str:
    """What tells the machine on which a process id means something; empty where the system (all but Linux) does not.

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
    """A temporary name beside a path that nobody else uses, and that tells who does: see `sweep`."""
    return path.with_name(f".new-{path.name}-{_tag()}-{os.getpid()}-{time.time_ns()}")


def sweep(folder: Path) -> None:
    """Remove what processes of this machine that are gone have left in a folder under temporary names."""
    for path in folder.glob(f".new-*-{_tag()}-*"):
        owner = re.search(r"-(\d+)-\d+$", path.name)
        if owner and machine() and not Path("/proc", owner[1]).exists():
            remove(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _tag() -> str:
    """The machine, in short."""
    return hashlib.sha256(machine().encode()).hexdigest()[:8]


def read_bytes(path: Path, most: int, *, links: bool = True) -> bytes:
    """The bytes of a file; OSError where it has more than `most`, or is a pipe or a device, which may have no end.

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
    """A descriptor of a file, without waiting where it is a pipe that nobody writes to."""
    try:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | (0 if links else getattr(os, "O_NOFOLLOW", 0)))
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise OSError(errno.ELOOP, "A symbolic link", path) from None
        raise


def sync(path: Path) -> None:
    """Have a file's bytes on the disk, or the error that keeps them from it, before this returns."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def write_bytes(path: Path, content: bytes) -> Path:
    """Write under a temporary name, sync, rename; returns the path."""
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
    """Write a file that only its owner can read, unless it is there; of many at a time one does. Whether it was us."""
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
    """Write a text, all of it or nothing; returns the path."""
    return write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> Path:
    """Write plain data as readable JSON; NaN and infinity are refused."""
    return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
