"""Import code from outside the package, by entry point or by --import: methods, models, data sets and the like."""

import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from traceback import walk_tb

from fedbench.base.errors import UserError, describe_error, one_line

GROUP = "fedbench.plugins"
_OUTSIDE: set[str] = set()  # the top-level names of what was imported here


@lru_cache
def load_entry_points() -> None:
    """Import every module that an installed package names in the entry-point group `fedbench.plugins`, once."""
    for point in entry_points(group=GROUP):
        _load(point.value.partition(":")[0], f"entry point '{point.name}'")


def import_modules(names: Iterable[str], folder: str = "", source: str = "--import") -> None:
    """Import the modules that --import, or a file, names; they may also be in `folder` (the current one)."""
    names = list(names)
    if names and folder not in sys.path:
        sys.path.insert(0, folder)
    for name in names:
        _load(name, f"{source} {name}")


def blame(error: BaseException) -> str | None:
    """Return where an error, or its cause, was raised in a user's code: file, line and function; None if it was not."""
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        name = str(frame.f_globals.get("__name__"))
        if name.partition(".")[0] in _OUTSIDE - {"fedbench"}:
            function = frame.f_code.co_name
            inside = "" if function.startswith("<") else f", in {function}"
            return f"{Path(frame.f_code.co_filename).name}, line {line}{inside}"
    return blame(error.__cause__) if error.__cause__ else None


def described(error: BaseException) -> str:
    """What went wrong and, if it came up in somebody's own code, where, as one line; a UserError speaks for itself."""
    text, where = one_line(error) if isinstance(error, UserError) else describe_error(error), blame(error)
    return f"{text} ({where})" if where and where not in text else text


def beside(name: str, folder: Path) -> str:
    """Return the path of a module beside a file in `folder`, or the name of an installed module."""
    candidate = folder / (name if name.endswith(".py") else f"{name}.py")
    if candidate.is_file():
        return str(candidate.resolve())
    if name.endswith(".py"):
        raise UserError(f"import: {candidate}: is not there")
    return name


def module_name(module: str) -> str:
    """Return the name of a module, also if it was given by its file."""
    return Path(module).stem if module.endswith(".py") else module


def _load(module: str, source: str) -> None:
    if module.endswith(".py"):
        module = _on_path(Path(module), source)
    _OUTSIDE.add(module.partition(".")[0])
    try:
        import_module(module)
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever a user's module does wrong, one line says where
        at = f"; {where}" if (where := blame(error)) else ""
        raise UserError(f"{source}: cannot be imported ({describe_error(error)}{at})") from error


def _on_path(file: Path, source: str) -> str:
    """Put the folder of a file on the path, and return the name under which the file can be imported."""
    file = file.resolve()
    if not file.is_file():
        raise UserError(f"{source}: is not there")
    present = getattr(sys.modules.get(file.stem), "__file__", None)
    if file.stem in sys.modules and (not present or Path(present).resolve() != file):
        raise UserError(f"{source}: another module is called {file.stem}; choose another name")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    return file.stem
