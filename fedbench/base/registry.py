"""One registry for methods, models and data sets, for built-in and outside ones alike."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar

from fedbench.base.errors import ConfigError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Named things of one kind.

    A thing from outside the package gives a `version`, which becomes part of every trial's hash that
    uses it; built-in things are covered by the simulation version.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}
        self._versions: dict[str, str] = {}

    def add(self, name: str, item: T, version: str | None = None) -> None:
        """Register `item`; a name can be taken once."""
        if name in self._items and self._items[name] is not item:
            raise ConfigError(f"{self.kind} '{name}' is registered already; choose another name")
        self._items[name] = item
        if version is not None:
            self._versions[name] = version

    def get(self, name: str) -> T:
        """The thing of that name, or an error with the nearest spelling."""
        if not isinstance(name, str) or name not in self._items:
            raise ConfigError(unknown(self.kind, name, self._items))
        return self._items[name]

    def version(self, name: str) -> str | None:
        """The version of a thing from outside the package, None for a built-in one."""
        return self._versions.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._items))


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that adding a method, model or data set touches one file."""
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")
