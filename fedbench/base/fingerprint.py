"""The source of somebody's module, and of what it imports from beside it: a digest of both, and copies."""

import ast
import hashlib
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

LENGTH = 16  # hex digits
IGNORED = shutil.ignore_patterns("__pycache__", ".git*")


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


def copy_module(name: str, folder: Path) -> None:
    """Copy a module with the files beside it that it imports, or the whole of a package; not installed modules."""
    found = sources(name)
    if found is None or found[0] in _installed():
        return
    home, files = found
    top = sys.modules[name.partition(".")[0]]
    for part in getattr(top, "__path__", ()):
        shutil.copytree(part, folder / top.__name__, ignore=IGNORED, dirs_exist_ok=True)
    for file in files:
        target = folder / file.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    (folder / "__init__.py").touch()


def _installed() -> set[Path]:
    """Return the folders of installed modules: of this environment, and of others that it may lie on top of."""
    below = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return {Path(path).resolve() for path in (*sysconfig.get_paths().values(), *below)}
