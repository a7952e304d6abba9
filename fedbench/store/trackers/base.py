"""What a tracker is: a callback that is made of a config, the folder of all results and the run's name."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from fedbench.base.errors import ConfigError
from fedbench.base.registry import Registry, with_brackets
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName, name_alone
from fedbench.simulation import Callback, Record, Simulation


class Tracker(Callback[Simulation, Record]):
    """Shows a run elsewhere. What it raises ends its tracking with a warning, never the run."""

    def __init__(self, config: TrialConfig, out: Path, name: RunName) -> None:
        self.config = config
        self.out = out
        self.name = name


TRACKERS: Registry[type[Tracker]] = Registry("tracker", home="fedbench.store.trackers")

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


def trackers_of(
    names: Iterable[str], config: TrialConfig, out: Path, warn: Callable[[str], None], run: RunName | None = None
) -> list[Callback[Simulation, Record]]:
    """The trackers of a run (of that name), each kept from ending it; `warn` gets a line for each that fails."""
    called = run or name_alone(config)
    return [_Guarded(name, (config, out, called), warn) for name in dict.fromkeys(names)]


class _Guarded(Callback[Simulation, Record]):
    """A tracker whose first error is one warning, and its end."""

    def __init__(self, name: str, made_of: tuple[TrialConfig, Path, RunName], warn: Callable[[str], None]) -> None:
        self.name, self.made_of, self.warn = name, made_of, warn
        self._tracker: Tracker | None = None

    def _tell(self, tell: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            tell(self._tracker)
        except Exception as error:
            self._tracker = None
            self.warn(f"--track {self.name}: stopped tracking ({type(error).__name__}: {error})")

    def start(self, run: Simulation) -> None:
        """Make the tracker, and tell it."""
        try:
            self._tracker = TRACKERS.get(self.name)(*self.made_of)
        except Exception as error:
            self.warn(f"--track {self.name}: cannot be used ({type(error).__name__}: {error})")
        self._tell(lambda tracker: tracker.start(run))

    def round(self, run: Simulation, seen: Record) -> None:
        """Pass it on."""
        self._tell(lambda tracker: tracker.round(run, seen))

    def end(self, run: Simulation) -> None:
        """Pass it on."""
        self._tell(lambda tracker: tracker.end(run))
