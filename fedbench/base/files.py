"""Writing files so that a reader, or a crash, never meets half of one; and naming them."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

RESULTS = Path("results")  # where results are kept unless somebody says otherwise


def safe_name(text: str, allowed: str = "=,.-_") -> str:
    """A text as the name of a file or folder: every character but letters, digits and the allowed ones is a dash."""
    return "".join(c if c.isalnum() or c in allowed else "-" for c in text)


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


def write_once(path: Path, content: bytes) -> bool:
    """Write a file that only its owner can read, unless it is there; of many at a time one does. Whether it was us."""
    scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content)
        os.link(scratch, path)  # unlike a rename, never in place of one that is there
    except FileExistsError:
        return False
    finally:
        scratch.unlink(missing_ok=True)
    return True


def write_text(path: Path, content: str) -> Path:
    """Write a text, all of it or nothing; returns the path."""
    return write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> Path:
    """Write plain data as readable JSON; NaN and infinity are refused."""
    return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
