"""Reading files that may be anything; writing them so that nobody meets half of one; and naming them."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

RESULTS = Path("results")  # where results are kept unless somebody says otherwise


def safe_name(text: str, allowed: str = "=,.-_") -> str:
    """A text as the name of a file or folder: every character but letters, digits and the allowed ones is a dash."""
    return "".join(c if c.isalnum() or c in allowed else "-" for c in text)


def read_bytes(path: Path, most: int) -> bytes:
    """The bytes of a file; OSError where it has more than `most`, or is a pipe or a device, which may have no end."""
    if not (stat.S_ISREG(mode := path.stat().st_mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"More than {most} bytes", str(path))
    return content


def write_bytes(path: Path, content: bytes) -> Path:
    """Write under a temporary name, sync, rename; returns the path."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with scratch.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    return path


def write_text(path: Path, content: str) -> Path:
    """Write a text, all of it or nothing; returns the path."""
    return write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> Path:
    """Write plain data as readable JSON; NaN and infinity are refused."""
    return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
