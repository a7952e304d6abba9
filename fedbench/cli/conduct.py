"""The one way through a command that runs trials, `study` or `search`. Quick to import: jobs bring what they need."""

import argparse
import gc
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedbench.base.errors import UserError, one_line
from fedbench.base.files import PACKED
from fedbench.base.plugins import blame, import_modules
from fedbench.base.signals import interrupt, stop_signals
from fedbench.base.text import say
from fedbench.cli.command import DONE, FAILED, code_of, command_line, invocation, is_command
from fedbench.cli.options import check_resources, run_options
from fedbench.cli.supervise import Child, supervised
from fedbench.specs.library import built_in, path_of
from fedbench.tune.local import RayDied, abandoned, started_ahead, stop_pending

Rows = list[dict[str, Any]]  # what --list shows: a row each, by column


class Job(ABC):
    """What a command is about to do: a study (or all of them), or a search."""

    @abstractmethod
    def estimate(self) -> None:
        """Print what is left to do, and roughly what it costs."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Whatever must be held while the job runs."""
        yield

    @abstractmethod
    def run(self) -> None:
        """Run what is missing. Ctrl-C raises KeyboardInterrupt; RayDied is raised if Ray's own processes have died."""

    @abstractmethod
    def report(self, *, interrupted: bool) -> None:
        """Write and print what there is now."""

    @abstractmethod
    def left(self) -> str:
        """What has not been run, in words; empty if all has."""

    @property
    def lost(self) -> bool:
        """Whether something of what is left was run, and could not be kept."""
        return False

    @abstractmethod
    def failed(self, strict: bool) -> bool:
        """Whether nothing succeeded or, where `strict`, something did not."""


@dataclass(frozen=True)
class Command:
    """A command that runs jobs.

    door: its module; folder: where its built-in files are; what: one of them in words; more: names beside theirs;
    rows: what --list shows; columns: of that; job: what the options ask for.
    """

    door: str
    folder: str
    what: str
    more: Sequence[str]
    rows: Callable[[argparse.Namespace], Rows]
    columns: Sequence[str]
    job: Callable[[argparse.Namespace], Job]


def conduct(command: Command, options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """List, or estimate, or run, report and judge; returns the exit code."""
    if options.json and not options.list:
        raise UserError("--json: goes with --list")
    if options.list and options.name:
        raise UserError(f"--list lists everything; leave out {options.name}")
    import_modules(options.modules)
    if options.list:
        with no_collector():
            show_rows(command.rows(options), command.columns, as_json=options.json)
        return DONE
    if not options.name:
        known = ", ".join([*built_in(command.folder), *command.more])
        raise UserError(f"name a {command.what}: {known}, or a YAML file")
    if options.name not in command.more:
        path_of(command.folder, options.name, command.what)  # a typo is answered before anything is imported
    check_resources(options)
    if options.dry_run or not is_command():
        return _carry_out(command, options, arguments, Child())
    again = _again(command, arguments)
    return supervised(lambda child: _carry_out(command, options, arguments, child), options.max_failures, again)


def _carry_out(command: Command, options: argparse.Namespace, arguments: Sequence[str], child: Child) -> int:
    """Estimate, or run, report and judge; return the exit code.

    Ray is started meanwhile if it is likely to be needed. A signal that arrives before the job is known ends the
    process: an exception might be lost in the middle of an import.
    """
    options.fresh = options.fresh and not child.prepared_before
    likely = not options.dry_run and unfinished(command.folder, command.more, options)
    try:
        with ExitStack() as background:
            with stop_signals(partial(child.stop, tidy=stop_pending)), no_collector():
                background.enter_context(started_ahead(run_options(options), likely))
                job = command.job(options)
            if options.dry_run:
                job.estimate()
                return DONE
            return _run(job, command, options, arguments, child)
    except KeyboardInterrupt as stop:
        if abandoned():
            child.stop(code_of(stop) - 128)
        raise


def _run(job: Job, command: Command, options: argparse.Namespace, arguments: Sequence[str], child: Child) -> int:
    """Run, report and judge; return the exit code."""
    again = _again(command, arguments)
    with job.held():
        child.prepared()
        try:
            stopped = _stopped(job.run)
            if stopped:
                stop_pending()
            if stopped and abandoned():
                interrupt(stopped - 128)
            job.report(interrupted=bool(stopped))
        except RayDied as death:
            child.restart(str(death))
            raise UserError(f"{death}; what was finished is stored; go on with: {again}") from death
        except (OSError, EOFError) as error:  # a full disk, a file that it has cut off, a folder that is read-only now
            if blame(error):  # or somebody's own code
                raise
            say(f"error: {one_line(error)}; go on with: {again}", sys.stderr)
            return FAILED
    if left := job.left():
        say(f"{left} left; go on with: {again}", sys.stderr)
        return stopped if stopped and not job.lost else FAILED
    return FAILED if job.failed(options.strict) else DONE


def _again(command: Command, arguments: Sequence[str]) -> str:
    """The command line that goes on where this one has stopped."""
    return command_line([*invocation(command.door, arguments), *(a for a in arguments if a != "--fresh")])


def unfinished(folder: str, more: Sequence[str], options: argparse.Namespace) -> bool:
    """Whether it looks as if there is something to run, by what the last command left; sure is only who expands it."""
    path, reports = Path(options.name), options.out / ("studies" if folder == "studies" else "searches")
    changed = options.set or options.only or options.seeds
    try:
        if path.suffix and not path.is_file():
            return False
        if options.fresh:
            return True
        places = [reports / name / options.scale for name in (path.stem, f"own-{path.stem}")]
        found = [place for place in places if place.is_dir()]
        if not found:  # but where several studies were asked for, or results are published ones, others tell
            return not (options.name in more and reports.is_dir()) and not any(options.out.glob(f"trials/*{PACKED}"))
        told = {} if changed else json.loads((found[-1] / "report.json").read_text())
    except (OSError, ValueError):  # a name that is too long, or no report: others have more to say
        return False
    counts = told.get("counts", {})
    return bool(sum(counts.values()) - counts.get("failed", 0) < told.get("trials", 0))


@contextmanager
def no_collector() -> Iterator[None]:
    """Without the garbage collector, which would walk through all of torch again and again while it is imported."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _stopped(run: Callable[[], None]) -> int:
    """The exit code of Ctrl-C, or of another signal, if that ended it, else 0."""
    try:
        run()
    except KeyboardInterrupt as stop:
        return code_of(stop)
    return 0


def show_rows(rows: Rows, columns: Sequence[str], *, as_json: bool) -> None:
    """Print what there is, as a table or as JSON."""
    if as_json:
        say(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    from fedbench.cli.cells import cell

    table = Table(*columns)
    for row in rows:
        table.add_row(*(cell(_text(row[column])) for column in columns))
    Console().print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):  # done and trials
        return f"{value['done']}/{value['trials']}"
    return ", ".join(value) if isinstance(value, list) else str(value)
