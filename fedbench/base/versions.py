"""What must be the same on all nodes: fedbench, torch and Python. Ray is not imported here, nor torch."""

import hashlib
import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

Versions = Mapping[str, str]
NONE = "none"
LENGTH = 8  # hex digits
PACKAGE = Path(__file__).parents[1]  # fedbench itself, as it is running


@cache
def versions() -> Versions:
    """Those of this process. Of torch, without the build: it may be one for GPUs on some nodes."""
    major, minor, _ = platform.python_version_tuple()
    try:
        torch = version("torch").partition("+")[0]
    except PackageNotFoundError:
        torch = NONE
    return {"fedbench": own_version(), "torch": torch, "Python": f"{major}.{minor}"}


def own_version(package: Path = PACKAGE) -> str:
    """That of fedbench, of its simulation, and a digest of its source: a checkout changes between versions."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    number = _constant(package / "__init__.py", r'__version__ = "(.+)"')
    simulation = _constant(package / "config" / "identity.py", r"SIMULATION_VERSION = (\d+)")
    return f"{number} (simulation {simulation}, source {digest.hexdigest()[:LENGTH]})"


def _constant(file: Path, pattern: str) -> str:
    found = re.search(f"^{pattern}", file.read_text(), re.MULTILINE)
    return found[1] if found else NONE


def complaint(node: str, theirs: Versions, ours: Versions) -> str:
    """How a node differs from the command, in one line; empty if it does not."""
    differing = [name for name in ours if theirs.get(name, NONE) != ours[name]]
    if not differing:
        return ""
    there = ", ".join(f"{name} {theirs.get(name, NONE)}" for name in differing)
    here = ", ".join(f"{name} {ours[name]}" for name in differing)
    way = "; --ship sends fedbench along" if differing == ["fedbench"] else ""
    return f"node {node} has {there}, this command has {here}{way}"
