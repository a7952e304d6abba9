"""What a tracker is: a callback that is made of a config, the folder of all results and the run's name."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from fedbench.base.errors import ConfigError, UserError
from fedbench.base.registry import Registry, with_brackets
from fedbench.config import TrialConfig
from fedbench.config.naming import SHORT_HASH, RunName
from fedbench.simulation import Callback, Record, Simulation

Numbers = dict[str, float]


class Tracker(Callback[Simulation, Record]):
    """Shows a run elsewhere. What it raises ends its tracking with a warning, never the run.

    package: what it needs beside fedbench; variables: how the names of environment variables begin that it obeys,
    which workers get from the command; patience: variables that hold while it is called, unless they are set.
    """

    package: ClassVar[str] = ""
    variables: ClassVar[tuple[str, ...]] = ()
    patience: ClassVar[Mapping[str, str]] = {}

    def __init__(self, config: TrialConfig, out: Path, name: RunName) -> None:
        self.config = config
        self.out = out
        self.name = name

    @property
    def key(self) -> str:
        """Return an id of the run: the same when it is resumed, and different in another results folder."""
        return f"{self.config.hash[:SHORT_HASH]}-{folder_key(self.out)}"

    def stopped(self) -> None:
        """Called when the run was stopped after a round, and may go on later."""

    def crashed(self, reason: str) -> None:
        """Called when the run failed, perhaps before its `start`; the next command tries it again."""

    @classmethod
    def prepare(cls, out: Path, study: str) -> None:
        """Called before a study (or a search) is run.

        An error raised here is a warning, and the tracker is not used.
        """

    @classmethod
    def report(cls, out: Path, study: str, scale: str, files: Sequence[Path]) -> None:
        """Called when a study (or a search) has ended, with the files of its report."""

    @classmethod
    def environment(cls) -> dict[str, str]:
        """The environment variables that workers get; a relative path in one would mean another folder there."""
        return {name: value for name, value in os.environ.items() if name.startswith(cls.variables)}


TRACKERS: Registry[type[Tracker]] = Registry("tracker", home="fedbench.trackers")

T = TypeVar("T", bound=type[Tracker])


def register_tracker(name: str) -> Callable[[T], T]:
    """Decorate a Tracker subclass."""
    with_brackets("register_tracker('name')", name)

    def register(tracker: T) -> T:
        if not isinstance(tracker, type) or not issubclass(tracker, Tracker):
            raise ConfigError(f"tracker '{name}': must be a subclass of Tracker")
        TRACKERS.add(name, tracker)
        return tracker

    return register


def check_trackers(names: Sequence[str]) -> None:
    """Refuse unknown trackers, and those whose packages are not installed."""
    for name in names:
        package = TRACKERS.get(name).package
        if package and find_spec(package) is None:
            raise UserError(f"--track {name}: needs {package}, which is not installed; pip install {package}")


def folder_key(out: Path) -> str:
    """Return a short id of a results folder."""
    return hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:6]


def parameters(config: TrialConfig) -> dict[str, Any]:
    """Return every setting by its dotted key, and the hash."""
    return {**dict(flat(config.plain())), "hash": config.hash}


def flat(content: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """All leaves of nested mappings by their dotted keys."""
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def numbers(summary: Mapping[str, Any]) -> Numbers:
    """The numbers of a summary by their dotted keys."""
    return {key: value for key, value in flat(summary) if isinstance(value, int | float)}
