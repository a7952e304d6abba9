"""What comes from outside the package, by entry point or by --import: methods, models, data sets and the like."""

import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points

from fedbench.base.errors import UserError

GROUP = "fedbench.plugins"


@lru_cache
def load_entry_points() -> None:
    """Import every module that an installed package names in the entry-point group `fedbench.plugins`, once."""
    for point in entry_points(group=GROUP):
        _load(point.value.partition(":")[0], f"entry point '{point.name}'")


def import_modules(names: Iterable[str], folder: str = "") -> None:
    """Import the modules that --import names, looked for in `folder` (the current one) too."""
    names = list(names)
    if names and folder not in sys.path:
        sys.path.insert(0, folder)
    for name in names:
        _load(name, f"--import {name}")


def _load(module: str, source: str) -> None:
    try:
        import_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # whatever a user's module does wrong, one line says where
        raise UserError(f"{source}: cannot be imported ({type(error).__name__}: {error})") from error
