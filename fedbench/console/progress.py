"""Progress of a run, a study or a search: a live line in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from fedbench.base.errors import one_line
from fedbench.base.text import printable, say
from fedbench.config import TrialConfig
from fedbench.simulation import Callback, Record, Simulation

PLAIN_EVERY = 5.0  # seconds between plain lines of one run
LOG_EVERY = 60.0  # and between lines on what runs, of a study
DAY = 86400.0  # seconds


class Score(NamedTuple):
    """A test accuracy, as a fraction, and the round whose model has it: not every round is scored."""

    accuracy: float
    round: int


class FieldColumn(ProgressColumn):
    """A column that shows a field of the task as one line of plain text."""

    def __init__(self, field: str) -> None:
        super().__init__(Column(no_wrap=True))
        self.field = field

    def render(self, task: Task) -> Text:
        """Show the field: neither rich nor the terminal finds a command in it."""
        return Text(one_line(task.fields[self.field]))


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

    def say(self, text: str) -> None:
        """Print a line above the live one, which says that something is about to take a while."""
        if self._bar:
            self._bar.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
        else:
            say(text)


class RunProgress(LiveLine, Callback[Simulation, Record]):
    """Shows round, accuracy, loss and time left. A context manager, and a listener of the run."""

    def __init__(self, rounds: int, console: Console) -> None:
        self.rounds = rounds
        self.console = console
        self._scores, self._scored = "", 0  # the last scores, and their round
        self._first = 0
        self._started = self._printed = time.monotonic()
        if console.is_terminal:
            columns = (TextColumn("round {task.completed:.0f}/{task.total:.0f}"), BarColumn())
            self._bar = Progress(*columns, FieldColumn("scores"), TimeRemainingColumn(), console=console)
            self._task = self._bar.add_task("", total=rounds, scores="")

    def start(self, run: Simulation) -> None:
        """Count from the rounds that a resumed run has already."""
        self._first = run.state.round
        for record in run.state.history:
            self._take(record)
        self._started = self._printed = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=self._first)

    def round(self, run: Simulation, seen: Record) -> None:
        """Count a finished round."""
        self._take(seen)
        scores = self._scores + of_round(self._scored, seen.round)
        if self._bar:
            self._bar.update(self._task, completed=seen.round, scores=scores)
            return
        now = time.monotonic()
        if now - self._printed >= PLAIN_EVERY or seen.round in (self._first + 1, self.rounds):
            self._printed = now
            left = (now - self._started) / (seen.round - self._first) * (self.rounds - seen.round)
            say(f"round {seen.round}/{self.rounds}  {scores}  {clock(left)} left")

    def _take(self, record: Record) -> None:
        """Store the scores of a round, if it was scored."""
        if record.test_accuracy is not None and record.test_loss is not None:
            self._scores = f"accuracy {100 * record.test_accuracy:.2f} %  loss {record.test_loss:.4f}"
            self._scored = record.round


def of_round(scored: int, now: int) -> str:
    """Which round a score belongs to, in words; nothing if that is the present one, or there is no score."""
    return f" (round {scored})" if 0 < scored < now else ""


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss, more than a day in days."""
    if seconds > DAY:
        return f"{seconds / DAY:,.1f} days"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


class Watch(Protocol):
    """What follows how trials end; `verdict` says in words that it is useless to go on, or is empty."""

    verdict: str

    def ended(self, hash_: str, outcome: str, reason: str) -> None:
        """A trial has ended."""


class StudyProgress(LiveLine):
    """Counts trials and rounds. A context manager; the runner tells it what happens.

    names: what to call each trial; watch: what is told how trials end, and may say that it is useless to go on;
    questions: what is still open of a study that is run until it is decided.
    """

    def __init__(
        self,
        trials: dict[str, TrialConfig],
        names: Mapping[str, str],
        console: Console,
        watch: "Watch | None" = None,
        questions: str = "",
    ) -> None:
        self.trials, self.names, self.watch, self.questions = trials, names, watch, questions
        self.scores: dict[str, Score | None] = {}
        self.curves: dict[str, dict[int, float]] = {hash_: {} for hash_ in trials}  # percent, by round
        self.console = console
        self.rounds = dict.fromkeys(trials, 0)
        self.running: set[str] = set()
        self.elsewhere: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self._warned: set[str] = set()
        self.latest = ""
        self._started = self._printed = time.monotonic()
        self._before: int | None = None  # rounds of the first news, which starts the clock, or from before a resume
        if console.is_terminal:
            columns = (FieldColumn("counts"), BarColumn(bar_width=24), TimeRemainingColumn())
            self._bar = Progress(*columns, FieldColumn("latest"), console=console)
            total = sum(config.rounds for config in trials.values())
            self._task = self._bar.add_task("", total=total, counts=self._counts(), latest="")

    def update(self, hash_: str, round_: int, score: Score | None) -> None:
        """Note that a trial has reached a round; `score` is its last one, None if no round was scored yet."""
        self.running.add(hash_)
        self.elsewhere.pop(hash_, None)
        if self._before is not None and hash_ not in self.scores:
            self._before += round_ - 1
        self._start_clock(round_)
        self.rounds[hash_], self.scores[hash_] = round_, score
        if score:
            self.curves[hash_][score.round] = 100 * score.accuracy
        self.latest = self._standing(hash_)
        self._show()
        if self._bar is None and time.monotonic() - self._printed >= LOG_EVERY:
            running = "; ".join(map(self._standing, sorted(self.running, key=list(self.trials).index)))
            self._print(f"running: {running}")

    def _standing(self, hash_: str) -> str:
        """Return how far a trial is."""
        now, score = self.rounds[hash_], self.scores[hash_]
        scored = f", {100 * score.accuracy:.2f} %{of_round(score.round, now)}" if score else ""
        return f"{self.names[hash_]}: round {now}/{self.trials[hash_].rounds}{scored}"

    def _print(self, text: str) -> None:
        self._printed = time.monotonic()
        say(f"{self._counts()}{self.left()}; {text}")

    @property
    def hopeless(self) -> str:
        """Return why it is useless to go on; empty if it is not."""
        return self.watch.verdict if self.watch else ""

    def stopped(self, hash_: str) -> None:
        """Note that a trial was stopped on request; the next command continues it."""
        self.running.discard(hash_)
        self._show()

    def held(self, hash_: str, holder: str) -> None:
        """Note that another command runs a trial."""
        self.elsewhere[hash_] = holder
        self.latest = f"{self.names[hash_]}: running elsewhere ({holder})"
        self._show()
        if self._bar is None:
            self._print(self.latest)

    def ended(self, hash_: str, outcome: str, detail: str) -> None:
        """Note that a trial is done, diverged or failed."""
        self.running.discard(hash_)
        self.elsewhere.pop(hash_, None)
        self.outcomes[hash_] = outcome
        if self.watch:
            self.watch.ended(hash_, outcome, detail)
        self.rounds[hash_] = self.trials[hash_].rounds
        self._start_clock(self.rounds[hash_])
        self.latest = f"{self.names[hash_]}: {detail}"
        self._show()
        if self._bar is None:
            self._print(self.latest)

    def hear(self, hash_: str, report: Mapping[str, Any], found: str = "") -> None:
        """Take in what a trial reports: its `status`, and what belongs to that; found: where its result was found."""
        status, reason = report["status"], report["reason"]
        if status == "running":
            scored = report.get("scored_round")
            self.update(hash_, report["round"], Score(report["test_accuracy"], scored) if scored else None)
        elif status == "stopped":
            self.stopped(hash_)
        elif status == "elsewhere":
            self.held(hash_, reason)
        else:
            last = report.get("last_accuracy") if status == "done" else None
            detail = f"{status}: {reason}" if last is None else f"last round {100 * last:.2f} %"
            self.ended(hash_, status, detail + (f" ({found})" if found else ""))

    def warn(self, text: str) -> None:
        """Print a warning, each one once, whatever it says in brackets."""
        what = text.partition(" (")[0]
        if what not in self._warned:
            self._warned.add(what)
            Console(stderr=True).print(f"warning: {one_line(text)}", markup=False, highlight=False, soft_wrap=True)

    def _show(self) -> None:
        if self._bar:
            done = sum(self.rounds.values())
            self._bar.update(self._task, completed=done, counts=self._counts(), latest=self.latest)

    def _counts(self) -> str:
        ended, bad = len(self.outcomes), sum(outcome != "done" for outcome in self.outcomes.values())
        waiting = len(self.trials) - ended - len(self.running) - len(self.elsewhere)
        elsewhere = f" and {len(self.elsewhere)} elsewhere" if self.elsewhere else ""
        trouble = f", {bad} diverged or failed" if bad else ""
        counts = f"{ended}/{len(self.trials)} done, {len(self.running)} running{elsewhere}, {waiting} waiting{trouble}"
        return f"{self.questions}: {counts}" if self.questions else counts

    def _start_clock(self, rounds: int) -> None:
        """At the first news: until then Ray was started and data were read."""
        if self._before is None:
            self._started, self._before = time.monotonic(), rounds

    def left(self) -> str:
        """The time left, in words, by the rounds since the first news; none before there are any."""
        total, done = sum(config.rounds for config in self.trials.values()), sum(self.rounds.values())
        if self._before is None or done <= self._before:
            return ""
        return f", {clock((time.monotonic() - self._started) / (done - self._before) * (total - done))} left"


class SearchProgress(LiveLine):
    """Counts the suggestions of one method. A context manager; the searcher tells it what happens.

    label: the method; done, total: suggestions; rounds: of each; show: turns a score into text.
    """

    def __init__(
        self, label: str, done: int, total: int, rounds: int, show: Callable[[float], str], console: Console
    ) -> None:
        self.label, self.done, self.total, self.rounds, self.show = label, done, total, rounds, show
        self.crashed = 0
        self.latest = ""
        self._running: dict[int, int] = {}
        self._scores: dict[int, tuple[int, str]] = {}  # of each suggestion, the last one and its round
        self._started, self._first = time.monotonic(), done
        if console.is_terminal:
            columns = (
                FieldColumn("counts"),
                BarColumn(bar_width=24),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, FieldColumn("latest"), console=console)
            self._task = self._bar.add_task("", total=total, completed=done, counts=self._counts(), latest="")

    def update(self, number: int, round_: int, score: float | None) -> None:
        """Note that a suggestion has reached a round."""
        self._running[number] = round_
        if score is not None:
            self._scores[number] = round_, self.show(score)
        scored, shown = self._scores.get(number, (0, ""))
        text = f", {shown}{of_round(scored, round_)}" if shown else ""
        self.latest = f"suggestion {number}: round {round_}/{self.rounds}{text}"
        self._show()

    def ended(self, number: int, values: Mapping[str, object], outcome: str, score: float | None, reason: str) -> None:
        """Note the outcome of a suggestion."""
        round_ = self._running.pop(number, 0)
        self.crashed += outcome == "failed"
        self.done += outcome not in ("failed", "died")
        what = ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in values.items())
        text = "" if score is None else f" {self.show(score)}"
        after = f" after round {round_}" if outcome in ("stopped", "diverged") else ""
        self.latest = f"{what}: {outcome}{after}{text}" + (f" ({reason})" if reason else "")
        self._show()
        if self._bar is None:
            say(f"{self._counts()}, {clock(self._left())} left; {self.latest}")

    def _show(self) -> None:
        if self._bar:
            part = sum(self._running.values()) / self.rounds
            self._bar.update(self._task, completed=self.done + part, counts=self._counts(), latest=self.latest)

    def _counts(self) -> str:
        trouble = f", {self.crashed} failed" if self.crashed else ""
        return f"{self.label}: {self.done}/{self.total} suggestions{trouble}"

    def _left(self) -> float:
        return (time.monotonic() - self._started) / max(self.done - self._first, 1) * (self.total - self.done)
