"""Registries: the named things of one kind, built-in ones and those of plugins."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from threading import RLock
from typing import Generic, TypeVar

from fedbench.base.errors import ConfigError, unknown
from fedbench.base.fingerprint import fingerprint, outside_module
from fedbench.base.plugins import load_entry_points

T = TypeVar("T")

IMPORTING = RLock()  # one for all registries: they look each other up


def with_brackets(decorator: str, given: object) -> None:
    """Refuse a decorator that is written without brackets, which would register nothing."""
    if callable(given):
        name = getattr(given, "__name__", "")
        raise ConfigError(f"{name}: write @{decorator} before it, with the brackets")


class Registry(Generic[T]):
    """Named things of one kind.

    `home` is the package whose modules register what comes with fedbench: a thing is found by lying there. They are
    imported at the first look, and installed plugins with them, so that naming a registry costs nothing.

    A thing from outside the package has a `version`, which becomes part of every trial's hash that uses it: the one
    that it gives or, if it gives none, a fingerprint of its source. Built-in things are covered by the simulation
    version.
    """

    def __init__(self, kind: str, home: str) -> None:
        self.kind = kind
        self.home = home
        self._items: dict[str, T] = {}
        self._versions: dict[str, str] = {}
        self._sorted: list[tuple[str, T]] = []
        self._modules: dict[str, str | None] = {}
        self._at_home = self._on_the_way = False

    def add(self, name: str, item: T, version: str | None = None) -> None:
        """Register `item`; a name can be taken only once."""
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{self.kind} {name!r}: its name must be a word")
        if name in self._items and self._items[name] is not item:
            raise ConfigError(self._taken(name))
        self._items[name] = item
        module = outside_module()
        self._modules[name] = module
        if version is None and module and (source := fingerprint(module)):
            version = f"source {source}"
        self._sorted = sorted(self._items.items(), key=lambda entry: entry[0])
        if version is not None:
            self._versions[name] = version

    def _taken(self, name: str) -> str:
        """Return the error for a name that is taken, with the plugin that took it, or wants it."""
        new, old = outside_module(), self._modules[name]
        where = f"{new or old}: " if new or old else ""
        return f"{where}{self.kind} '{name}' is registered already; choose another name"

    def get(self, name: object) -> T:
        """Return the thing with a name; ConfigError with the nearest spelling if there is none."""
        self._import_home()
        if not isinstance(name, str) or name not in self._items:
            raise ConfigError(f"{unknown(self.kind, name, self._items)}; one of your own needs --import")
        return self._items[name]

    def version(self, name: str) -> str | None:
        """Return the version of a thing from outside the package; None for a built-in one."""
        return self._versions.get(name)

    def items(self) -> list[tuple[str, T]]:
        """Return all names and things, sorted by name."""
        self._import_home()
        return self._sorted

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self.items()])

    def __contains__(self, name: object) -> bool:
        self._import_home()
        return isinstance(name, str) and name in self._items

    def _import_home(self) -> None:
        if self._at_home:
            return
        with IMPORTING:  # another thread waits until all is there
            if self._at_home or self._on_the_way:  # a module that is being imported may look something up
                return
            self._on_the_way = True
            try:
                for module in iter_modules(import_module(self.home).__path__):
                    import_module(f"{self.home}.{module.name}")
                load_entry_points()
                self._at_home = True
            finally:
                self._on_the_way = False
