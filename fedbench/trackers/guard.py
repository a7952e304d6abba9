"""What keeps trackers from ending or holding up a run: the first error is one warning, without secrets."""

import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from fedbench.base.environment import variables
from fedbench.base.text import IN_ADDRESS, without_passwords
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName, name_alone
from fedbench.simulation import Callback, Record, Simulation
from fedbench.simulation.checkpoint import Stopped
from fedbench.store.leases import HeldElsewhereError
from fedbench.trackers.base import TRACKERS, Tracker

Warn = Callable[[str], None]

REST = 60.0  # seconds for which a process leaves a tracker alone that has failed: each try may take seconds
REACH = 5.0  # seconds for an address to answer
SECRET = re.compile(r"KEY|TOKEN|PASSWORD|SECRET|CREDENTIAL", re.IGNORECASE)  # in a variable's name
SHORTEST = 6  # letters of a secret that can be told from a word

_resting: dict[str, tuple[float, str]] = {}  # by tracker: until when, and why


def trackers_of(
    names: Iterable[str], config: TrialConfig, out: Path, warn: Warn, run: RunName | None = None
) -> list["Guarded"]:
    """The trackers of a run (of that name), each kept from ending it; `warn` gets a line for each that fails."""
    called = run or name_alone(config)
    return [Guarded(name, (config, out, called), warn) for name in dict.fromkeys(names)]


@contextmanager
def tracked(
    names: Iterable[str], config: TrialConfig, out: Path, warn: Warn, run: RunName | None = None
) -> Iterator[list["Guarded"]]:
    """Wrap a whole run, so that its trackers are also called when it is stopped or crashes."""
    trackers = trackers_of(names, config, out, warn, run)
    try:
        yield trackers
    except (Stopped, HeldElsewhereError):
        raise
    except Exception as error:
        for tracker in trackers:
            tracker.crashed(f"{type(error).__name__}: {error}")
        raise
    finally:
        for tracker in trackers:
            tracker.stopped()


class Guarded(Callback[Simulation, Record]):
    """A tracker whose first error is one warning, and its end."""

    def __init__(self, name: str, made_of: tuple[TrialConfig, Path, RunName], warn: Warn) -> None:
        self.name, self.made_of, self.warn = name, made_of, warn
        self._tracker: Tracker | None = None
        self._lost = False

    def start(self, run: Simulation) -> None:
        """Make the tracker, and tell it."""
        self._make()
        self._tell(lambda tracker: tracker.start(run))

    def round(self, run: Simulation, seen: Record) -> None:
        """Pass the round on to the tracker."""
        self._tell(lambda tracker: tracker.round(run, seen))

    def end(self, run: Simulation) -> None:
        """Pass the end on to the tracker."""
        self._tell(lambda tracker: tracker.end(run))
        self._tracker = None

    def crashed(self, reason: str) -> None:
        """Pass the failure on to the tracker, which is created for a run that never started."""
        if self._tracker is None:
            self._make()
        self._tell(lambda tracker: tracker.crashed(reason))
        self._tracker = None

    def stopped(self) -> None:
        """Pass the stop on to the tracker, unless the run has ended."""
        self._tell(lambda tracker: tracker.stopped())
        self._tracker = None

    def _make(self) -> None:
        until, why = _resting.get(self.name, (0.0, ""))
        if self._lost:
            return
        if time.monotonic() < until:
            self._lost = True
            self.warn(why)
            return
        with guarded(self.name, self._given_up):
            self._tracker = TRACKERS.get(self.name)(*self.made_of)

    def _tell(self, tell: Callable[[Tracker], None]) -> None:
        if self._tracker is not None:
            with guarded(self.name, self._given_up):
                tell(self._tracker)

    def _given_up(self, text: str) -> None:
        self._tracker, self._lost = None, True
        _resting[self.name] = (time.monotonic() + REST, text)
        self.warn(text)


class CommandTrackers:
    """The trackers of a whole command: those that can be used, and what they are told beside the runs."""

    def __init__(self, names: Iterable[str], out: Path) -> None:
        self.names, self.out = tuple(dict.fromkeys(names)), out

    def prepare(self, studies: Iterable[str], warn: Warn) -> None:
        """Leave out those that cannot be used, with a warning each."""
        for study in studies:
            self._tell(lambda tracker, study=study: tracker.prepare(self.out, study), warn)  # type: ignore[misc]

    def report(self, study: str, scale: str, files: Sequence[Path], warn: Warn) -> None:
        """Hand over a report: its page or, where there is none, its tables."""
        pages = [path for path in files if path.name == "report.html"]
        shown = pages or [path for path in files if path.suffix == ".csv"]
        self._tell(lambda tracker: tracker.report(self.out, study, scale, shown), warn)

    def environment(self) -> dict[str, str]:
        """Return the environment variables that workers need for the trackers."""
        return {name: value for tracker in self.names for name, value in TRACKERS.get(tracker).environment().items()}

    def _tell(self, tell: Callable[[type[Tracker]], None], warn: Warn) -> None:
        for name in self.names:
            lost: list[str] = []
            with guarded(name, lost.append):
                tell(TRACKERS.get(name))
            if lost:
                self.names = tuple(other for other in self.names if other != name)
                warn(lost[0])


@contextmanager
def guarded(name: str, failed: Callable[[str], None]) -> Iterator[None]:
    """Call a tracker with its `patience` variables; report its first error, without secrets, to `failed`."""
    unset = {key: value for key, value in TRACKERS.get(name).patience.items() if key not in os.environ}
    try:
        with variables(unset), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what packages tell their own developers
            yield
    except Exception as error:
        failed(f"--track {name}: stopped tracking ({without_secrets(_line(error))})")


def without_secrets(text: str) -> str:
    """Return a text without passwords of addresses and secrets of the environment."""
    for name, value in os.environ.items():
        if SECRET.search(name) and len(value) >= SHORTEST:
            text = text.replace(value, "***")
    return without_passwords(text)


def reach(address: str) -> None:
    """Raise an error unless a server answers within seconds; the clients of trackers would try for minutes."""
    if not address.startswith(("http://", "https://")):
        return
    try:
        urlopen(Request(IN_ADDRESS.sub("", address).replace("://@", "://"), method="HEAD"), timeout=REACH).close()
    except HTTPError:
        pass  # an answer
    except OSError as error:
        raise ConnectionError(f"no answer from {without_secrets(address)}: {getattr(error, 'reason', error)}") from None


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
