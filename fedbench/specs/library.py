"""The YAML files that come with fedbench, studies and search spaces, and those of users: read, and checked."""

from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from fedbench.base.errors import ConfigError, UserError, unknown
from fedbench.base.explain import explain
from fedbench.base.settings import load_raw_yaml

Content = TypeVar("Content", bound=BaseModel)


def built_in(folder: str) -> dict[str, Path]:
    """The files of a folder ("studies", "search_spaces") by name: in an installed wheel, or in a checkout."""
    package = Path(str(files("fedbench")))
    places = (package / f"_{folder}", package.parent / folder)
    return {path.stem: path for place in places for path in sorted(place.glob("*.yaml"))}


def load(folder: str, name: str, model: type[Content], what: str) -> tuple[str, Content]:
    """A built-in file by its name, or a user's by its path; returns its short name and what it says."""
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        known = built_in(folder)
        if name not in known:
            raise UserError(f"{unknown(what, name, known)}; or name a .yaml file")
        path = known[name]
    raw = load_raw_yaml(path)
    try:
        return path.stem, model.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error, model)}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
