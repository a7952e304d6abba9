"""Carry out a job: start Ray in the background, run what is missing, report. Quick to import: jobs import the rest."""

import gc
import json
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from fedbench.base.errors import UserError, one_line
from fedbench.base.files import PACKED
from fedbench.base.plugins import blame
from fedbench.base.signals import interrupt, stop_signals
from fedbench.jobs.options import Request
from fedbench.tune.cluster import RayDied, abandoned, started_ahead, stop_pending

EVERYTHING = "all"  # the name of all studies together, except the one that only tries whether fedbench works


class Unfinished(UserError):
    """A job could not go on because of the file system: a full disk, a file cut off, a read-only folder."""


class Job(ABC):
    """A study, all studies together, or a search."""

    @abstractmethod
    def estimate(self) -> None:
        """Print what is left to do, and roughly what it costs."""

    def prepared(self) -> AbstractContextManager[None]:
        """Make everything ready, and hold the locks that the job needs while it runs."""
        return nullcontext()

    @abstractmethod
    def run(self) -> None:
        """Run what is missing. Ctrl-C raises KeyboardInterrupt; RayDied is raised if Ray's own processes have died."""

    @abstractmethod
    def report(self, *, interrupted: bool) -> None:
        """Write and print a report of what is stored."""

    @abstractmethod
    def left(self) -> str:
        """Return what has not been run, in words; an empty text if everything has."""

    @property
    def unstored(self) -> bool:
        """Whether something of what is left was run, but could not be stored."""
        return False

    @abstractmethod
    def failed(self, strict: bool) -> bool:
        """Return whether nothing succeeded or, if `strict`, whether anything failed."""


class Process:
    """The process in which a job runs; this one has no parent that would start it again: a notebook, script or test.

    prepared_before: whether an earlier child of a parent had finished `Job.prepared`, and with it retired the results
    that `fresh` discards.
    """

    prepared_before = False

    def prepared(self) -> None:
        """Let the parent know that the job is prepared."""

    def stop(self, number: int, tidy: Callable[[], None] = lambda: None) -> None:
        """Stop because of a signal; `tidy` runs first in a process that has a parent."""
        interrupt(number)

    def restart(self, reason: str) -> None:
        """End, so that the parent starts the job again; return if there is no parent."""


JobT = TypeVar("JobT", bound=Job)


@dataclass(frozen=True)
class Outcome(Generic[JobT]):
    """How a job ended.

    left: what has not been run, in words; stopped: the signal because of which it was not, else 0; failed: whether
    everything was run, but nothing succeeded or, if the job was strict, something failed.
    """

    job: JobT
    left: str = ""
    stopped: int = 0
    failed: bool = False


def carry_out(
    start: Callable[[Request], JobT], request: Request, resume: str, process: Process | None = None
) -> Outcome[JobT]:
    """Start a job and estimate it, or run and report it; return how it ended.

    Ray is started meanwhile if it is likely to be needed. A signal that arrives before the job has started ends a
    supervised process: an exception might be lost in the middle of an import. resume: how to go on, for error messages.
    """
    process = process or Process()
    request = replace(request, fresh=request.fresh and not process.prepared_before)
    try:
        with ExitStack() as background:
            with stop_signals(partial(process.stop, tidy=stop_pending)), no_collector():
                background.enter_context(started_ahead(request.options, likely_unfinished(request)))
                job = start(request)
            if request.dry_run:
                job.estimate()
                return Outcome(job)
            stopped = _run(job, resume, process)
    except KeyboardInterrupt as stop:
        if abandoned():
            process.stop(number_of(stop))
        raise
    left = job.left()
    return Outcome(job, left, stopped if left and not job.unstored else 0, not left and job.failed(request.strict))


def _run(job: Job, resume: str, process: Process) -> int:
    """Prepare, run and report a job; return the signal that stopped it, or 0."""
    with job.prepared():
        process.prepared()
        stopped = 0
        try:
            try:
                job.run()
            except KeyboardInterrupt as stop:
                stopped = number_of(stop)
                stop_pending()
                if abandoned():
                    interrupt(stopped)
            job.report(interrupted=bool(stopped))
        except RayDied as death:
            process.restart(str(death))
            raise UserError(f"{death}; what was finished is stored; {resume}") from death
        except (OSError, EOFError) as error:
            if blame(error):  # raised by a user's own code
                raise
            raise Unfinished(f"{one_line(error)}; {resume}") from error
    return stopped


def number_of(stop: KeyboardInterrupt) -> int:
    """Return the signal that an exception stands for; a plain KeyboardInterrupt is Ctrl-C."""
    return getattr(stop, "number", signal.SIGINT)


def likely_unfinished(request: Request) -> bool:
    """Return whether there is probably something to run, by the report of the last command.

    Only expanding the study or search space can tell for sure.
    """
    if request.dry_run:
        return False
    selection, out = request.selection, request.selection.out
    path, reports = Path(selection.name), out / ("searches" if request.search else "studies")
    try:
        if path.suffix and not path.is_file():
            return False
        if request.fresh:
            return True
        places = [reports / name / selection.scale for name in (path.stem, f"own-{path.stem}")]
        found = [place for place in places if place.is_dir()]
        if not found:  # there may be results of several studies, or published ones, without a report of this one
            return not (selection.name == EVERYTHING and reports.is_dir()) and not any(out.glob(f"trials/*{PACKED}"))
        changed = selection.changes or selection.only or selection.seeds
        report = {} if changed else json.loads((found[-1] / "report.json").read_text())
    except (OSError, ValueError):  # a name that is too long, or no report: whatever reads it next says what is wrong
        return False
    counts = report.get("counts", {})
    return bool(sum(counts.values()) - counts.get("failed", 0) < report.get("trials", 0))


@contextmanager
def no_collector() -> Iterator[None]:
    """Suspend the garbage collector, which would traverse all of torch again and again while it is imported."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
