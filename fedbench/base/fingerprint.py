"""Telling whether somebody's code has changed: a digest of a module's source, and of what it imports from beside it."""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

LENGTH = 16  # hex digits


def outside_module() -> str | None:
    """The module that is registering something, if it is not one of fedbench's own."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("fedbench.") and (name.startswith("fedbench.base.") or name.endswith(".base")):
            assert frame.f_back is not None
            frame = frame.f_back
            continue
        return None if name.startswith("fedbench.") else name
    return None


def fingerprint(module: str) -> str | None:
    """A digest of the source of a module, and of the modules beside it that it imports; None where there is no file."""
    found = sources(module)
    if found is None:
        return None
    home, files = found
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.relative_to(home).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:LENGTH]


def sources(module: str) -> tuple[Path, set[Path]] | None:
    """The folder that a module, or its package, lies in, its file, and those beside it that it imports."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file or not Path(file).is_file():
        return None
    up = module.count(".") + (Path(file).name == "__init__.py")
    above = Path(file).resolve().parents
    home = above[min(up, len(above) - 1)]
    todo, seen = [Path(file).resolve()], set[Path]()
    while todo:
        path = todo.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        todo += _beside(path, home, module.partition(".")[0])
    return home, seen


def _beside(path: Path, home: Path, package: str) -> Iterator[Path]:
    """Files that a file may import from its own package or, outside of installed packages, from its own folder."""
    installed = {Path(folder).resolve() for folder in sysconfig.get_paths().values()}
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        names: list[str] = []
        start = home
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)]
            if node.level:
                start = path.parents[node.level - 1]
        for name in filter(None, names):
            top, *_ = parts = name.split(".")
            if start == home and (top == "fedbench" or (home in installed and top != package)):
                continue  # not theirs
            for depth in range(1, len(parts) + 1):
                target = start.joinpath(*parts[:depth])
                yield target.with_suffix(".py")
                yield target / "__init__.py"
