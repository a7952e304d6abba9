"""The YAML files that come with fedbench, studies and search spaces, and those of users: read, and checked."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fedbench.base.errors import UserError, unknown

if TYPE_CHECKING:
    from pydantic import BaseModel

Content = TypeVar("Content", bound="BaseModel")


def built_in(folder: str) -> dict[str, Path]:
    """The files of a folder ("studies", "search_spaces") by name: in an installed wheel, or in a checkout."""
    package = Path(str(files("fedbench")))
    packed = package / f"_{folder}"
    found = packed if packed.is_dir() else package.parent / folder
    return {path.stem: path for path in sorted(found.glob("*.yaml"))}


def path_of(folder: str, name: str, what: str) -> Path:
    """Return the path of a file that is named by its built-in name or its path; UserError if there is none."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    known = built_in(folder)
    if name not in known:
        raise UserError(f"{unknown(what, name, known)}; or name a .yaml file")
    return known[name]


def load(folder: str, name: str, model: type[Content], what: str) -> tuple[str, Content]:
    """A built-in file by its name, or a user's by its path; returns its short name and what it says."""
    from fedbench.base.explain import validated
    from fedbench.base.plugins import beside, import_modules
    from fedbench.base.settings import load_raw_yaml

    path = path_of(folder, name, what)
    known = built_in(folder)  # a user's file of that name must not take the built-in's place
    foreign = path.stem in known and path.resolve() != known[path.stem].resolve()
    raw = load_raw_yaml(path)
    if isinstance(names := raw.get("import"), list) and all(isinstance(module, str) for module in names):
        raw["import"] = [beside(module, path.parent) for module in names]
        import_modules(raw["import"], str(path.parent), f"{path}: import")  # first: the rest may use what they bring
    return f"own-{path.stem}" if foreign else path.stem, validated(model, raw, f"{path}: ")
