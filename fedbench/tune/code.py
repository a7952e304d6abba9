"""Send code to the nodes of a cluster: modules of one's own and, with --ship, fedbench itself."""

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbench.base.fingerprint import IGNORED, copy_module
from fedbench.base.plugins import module_name
from fedbench.base.versions import PACKAGE
from fedbench.tune.options import RunOptions

MODULES = "fedbench_modules"  # the package that holds the modules on workers


@contextmanager
def packed(options: RunOptions) -> Iterator[dict[str, Any]]:
    """Yield the part of a runtime environment that brings a command's code to all nodes; needed during `ray.init`."""
    with tempfile.TemporaryDirectory(prefix="fedbench-") as scratch:
        folder = Path(scratch, MODULES)
        for module in options.modules:
            copy_module(module_name(module), folder)
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
    return [module_name(module) for module in modules], next(iter(found.submodule_search_locations))
