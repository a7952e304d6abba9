"""Send code to the nodes of a cluster: modules of one's own and, with --ship, fedbench itself."""

import importlib.util
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbench.base.fingerprint import sources
from fedbench.base.versions import PACKAGE
from fedbench.tune.options import RunOptions

MODULES = "fedbench_modules"  # the package that holds the modules on workers
IGNORED = shutil.ignore_patterns("__pycache__", ".git*")


@contextmanager
def packed(options: RunOptions) -> Iterator[dict[str, Any]]:
    """Yield the part of a runtime environment that brings a command's code to all nodes; needed during `ray.init`."""
    with tempfile.TemporaryDirectory(prefix="fedbench-") as scratch:
        folder = Path(scratch, MODULES)
        for module in options.modules:
            _pack(_name(module), folder)
        parts = [str(folder)] if folder.is_dir() else []
        if not options.ship:
            yield {"py_modules": parts} if parts else {}
            return
        parts.append(str(shutil.copytree(PACKAGE, Path(scratch, PACKAGE.name), ignore=IGNORED)))
        # Without a working directory, workers would look for fedbench in that of the driver first.
        empty = Path(scratch, "empty")
        empty.mkdir()
        (empty / "README").write_text("The code of this job is in its py_modules.\n")
        yield {"py_modules": parts, "working_dir": str(empty)}


def importable(modules: Sequence[str], folder: str) -> tuple[list[str], str]:
    """Return the names of modules and the folder in which this process finds them: on a worker, the one that was sent.

    folder: where the driver found them.
    """
    found = importlib.util.find_spec(MODULES)
    if found is None or not found.submodule_search_locations:
        return list(modules), folder
    return [_name(module) for module in modules], next(iter(found.submodule_search_locations))


def _name(module: str) -> str:
    """Return the name of a module, also if it was given by its file."""
    return Path(module).stem if module.endswith(".py") else module


def _pack(name: str, folder: Path) -> None:
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
