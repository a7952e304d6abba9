"""Progress of one run: a live line in a terminal, plain lines elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedbench.simulation import Record

PLAIN_EVERY = 5.0  # seconds between plain lines


class LiveLine:
    """A live line, where there is a terminal, for the time of a `with` block."""

    _bar: Progress | None = None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()


class RunProgress(LiveLine):
    """Shows round, accuracy, loss and time left. A context manager; call `show` after every round."""

    def __init__(self, rounds: int, done: int, console: Console) -> None:
        self.rounds = rounds
        self.console = console
        self._scores = ""
        self._first = done
        self._started = self._printed = time.monotonic()
        if console.is_terminal:
            columns = (TextColumn("round {task.completed:.0f}/{task.total:.0f}"), BarColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[scores]}"), TimeRemainingColumn(), console=console)
            self._task = self._bar.add_task("", total=rounds, completed=done, scores="")

    def show(self, record: Record) -> None:
        """Take in one finished round."""
        if record.test_accuracy is not None and record.test_loss is not None:
            self._scores = f"accuracy {100 * record.test_accuracy:.2f} %  loss {record.test_loss:.4f}"
        if self._bar:
            self._bar.update(self._task, completed=record.round, scores=self._scores)
            return
        now = time.monotonic()
        if now - self._printed >= PLAIN_EVERY or record.round in (self._first + 1, self.rounds):
            self._printed = now
            left = (now - self._started) / (record.round - self._first) * (self.rounds - record.round)
            print(f"round {record.round}/{self.rounds}  {self._scores}  {clock(left)} left", flush=True)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
