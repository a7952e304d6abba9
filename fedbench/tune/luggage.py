"""Code that travels with a command to a cluster: modules of one's own and, where asked for, fedbench itself."""

import importlib.util
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbench.base.fingerprint import sources
from fedbench.tune.options import RunOptions
from fedbench.tune.versions import PACKAGE

NAME = "fedbench_luggage"  # the folder of modules, importable on workers
LEFT = shutil.ignore_patterns("__pycache__", ".git*")
JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # what `ray job submit` tells the commands that it runs


@contextmanager
def packed(options: RunOptions) -> Iterator[dict[str, Any]]:
    """What a runtime environment of Ray's needs to bring a command's code to all nodes; for the time of `ray.init`."""
    with tempfile.TemporaryDirectory(prefix="fedbench-") as scratch:
        luggage = Path(scratch, NAME)
        for module in options.modules:
            _pack(_name(module), luggage)
        parts = [str(luggage)] if luggage.is_dir() else []
        environment: dict[str, Any] = {}
        if options.ship:
            parts.append(str(shutil.copytree(PACKAGE, Path(scratch, PACKAGE.name), ignore=LEFT)))
            environment |= _nowhere(Path(scratch, "nowhere"))
        if parts:
            environment["py_modules"] = [*_job().get("py_modules", []), *parts]
            os.environ["RAY_OVERRIDE_JOB_RUNTIME_ENV"] = "1"  # ours has what the job's has
        yield environment


def unpacked(modules: Sequence[str], folder: str) -> tuple[list[str], str]:
    """The names of modules as they are known here, and the folder to look in: on a worker that of what travelled."""
    found = importlib.util.find_spec(NAME)
    if found is None or not found.submodule_search_locations:
        return list(modules), folder
    return [_name(module) for module in modules], next(iter(found.submodule_search_locations))


def _name(module: str) -> str:
    """A module's name, also if it was named by its file."""
    return Path(module).stem if module.endswith(".py") else module


def _pack(name: str, luggage: Path) -> None:
    """Put a module in, with what it imports from beside it; of a package all. What is installed has to be there."""
    found = sources(name)
    if found is None or found[0] in {Path(path).resolve() for path in sysconfig.get_paths().values()}:
        return
    home, files = found
    top = sys.modules[name.partition(".")[0]]
    for part in getattr(top, "__path__", ()):
        shutil.copytree(part, luggage / top.__name__, ignore=LEFT, dirs_exist_ok=True)
    for file in files:
        target = luggage / file.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    (luggage / "__init__.py").touch()


def _nowhere(folder: Path) -> dict[str, str]:
    """An empty working folder: without one, workers look for fedbench in the driver's first, which may have another.

    A job that was submitted with one has it already.
    """
    if "working_dir" in _job():
        return {}
    folder.mkdir()
    (folder / "README").write_text("fedbench travels as a module.\n")
    return {"working_dir": str(folder)}


def _job() -> dict[str, Any]:
    """The runtime environment of the job that this command is part of, if it is."""
    return dict(json.loads(os.environ.get(JOB) or "{}").get("runtime_env") or {})
