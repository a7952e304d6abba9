"""Writing files so that a reader, or a crash, never meets half of one."""

import json
import os
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Write under a temporary name, sync, rename."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with scratch.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write plain data as readable JSON; NaN and infinity are refused."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
