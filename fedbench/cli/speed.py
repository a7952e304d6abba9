"""Measuring this machine: what the speed command does, from the models to the line to use."""

import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress
from rich.table import Table

from fedbench.base.errors import UserError
from fedbench.base.text import say
from fedbench.config import TrialConfig
from fedbench.console.progress import FieldColumn, LiveLine
from fedbench.cost.cases import PLAIN, Case, Machine, Row, Setting, cases
from fedbench.cost.plot import draw_speeds
from fedbench.cost.processes import LeftOut, Server
from fedbench.cost.speeds import FOLDER, Speeds, row_of
from fedbench.cost.work import HOLDOUT, paper_config
from fedbench.data.official import cache_dir
from fedbench.jobs.study import studies_at
from fedbench.models import MODELS
from fedbench.models.precision import PRECISIONS
from fedbench.simulation.environment import mps_running
from fedbench.specs.expand import expand

LEAST = 0.3  # seconds of training in a case, however many there are
TRAINING = 0.5  # of a case's time: the rest is for starting, warming up and scoring
MATRICES = 0.05  # of all the time, for the products of large matrices

Studies = Mapping[str, Mapping[str, TrialConfig]]  # the trials of each study, by hash


def run_speed(models: str, seconds: float, out: Path | None, modules: Sequence[str]) -> None:
    """Measure trials of some models, then store, draw and print the results.

    models: names, with commas between them; seconds: how long to measure; out: a results folder, None for the cache.
    """
    names, machine = chosen_models(models), Machine.here()
    folder = ready_folder((out or cache_dir()) / FOLDER)
    say(f"measuring on {machine}: about {seconds:.0f} s, and the time to start")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > machine.cpus / 2:
        say(f"others are at work here (load {load:.1f}): speeds come out lower, and uneven")
    studies = {name: expand(name, "paper", changes={}, only={}, seeds=None).trials for name in studies_at("paper")}
    to_measure = cases([(usual_data(name, studies), name) for name in names], machine, list(PRECISIONS))
    with SpeedProgress(len(to_measure), Console()) as progress:
        speeds = measure_all(to_measure, machine, Server(modules), seconds, progress)
    best = speeds.best()
    files = [*speeds.save(folder), *draw_speeds(speeds, folder)]
    show(speeds, best, studies, Console())
    say(f"kept for --dry-run and drawn: {', '.join(file.name for file in files)} in {folder}")


def ready_folder(folder: Path) -> Path:
    """A folder that can be written to; found out before anything is measured."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror or error})") from error


def chosen_models(text: str) -> list[str]:
    """The models that the option names."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        MODELS.get(name)
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--models {text}: {twice[0]} stands twice; name it once")
    if not names:
        raise UserError(f"--models {text}: name at least one model")
    return names


def usual_data(model: str, studies: Studies) -> str:
    """The data set on which most trials train a model; that of a plain config where none does."""
    used = Counter(c.data.name for trials in studies.values() for c in trials.values() if c.model == model)
    return used.most_common(1)[0][0] if used else TrialConfig(model=model).data.name


def measure_all(
    to_measure: Sequence[Case], machine: Machine, server: Server, seconds: float, progress: "SpeedProgress"
) -> Speeds:
    """Measure every case within about so many seconds; what cannot run here is left out, with the reason.

    Where it takes more than twice as long, other precisions are left out: those in float32 decide on the line to use.
    """
    precisions = dict.fromkeys(case.setting.precision for case in to_measure)
    matrices, left_out = matrix_speeds(precisions, machine, server, MATRICES * seconds / len(precisions))
    rows: list[Row] = []
    wanted = [case for case in to_measure if case.setting.precision in matrices]
    progress.skip(len(to_measure) - len(wanted))
    end = time.monotonic() + (1 - MATRICES) * seconds
    for number, case in enumerate(wanted):
        mine = max(LEAST, TRAINING * (end - time.monotonic()) / (len(wanted) - number))
        try:
            if case.setting.precision != PLAIN and time.monotonic() > end + seconds:
                raise LeftOut("no time is left; give more --seconds")
            found = server.trials(case, machine.device, mine)
        except LeftOut as reason:
            left_out[str(case)] = str(reason)
            progress.measured(f"{case}: left out ({reason})")
            continue
        if found[0].note:
            left_out[str(case)] = found[0].note
        rows.append(row_of(case, found, own_speed(matrices, case.setting.precision)))
        progress.measured(f"{case}: {rows[-1].samples:,.0f} samples a second")
    rows.sort(key=lambda row: [case.model for case in to_measure].index(row.model))
    context = None
    if machine.device == "cuda":
        try:
            context = server.context_bytes()
        except LeftOut as reason:
            left_out["memory that CUDA takes for a process"] = str(reason)
    return Speeds(time.strftime("%Y-%m-%d"), machine, matrices, tuple(rows), left_out, context, mps_running())


def matrix_speeds(
    precisions: Iterable[str], machine: Machine, server: Server, seconds: float
) -> tuple[dict[str, float], dict[str, str]]:
    """FLOP/s of the hardware by precision, each measured for so many seconds; and why others cannot be used here."""
    found: dict[str, float] = {}
    left_out: dict[str, str] = {}
    for precision in precisions:
        try:
            found[precision] = server.matrices(precision, machine.device, machine.cpus, seconds)
        except LeftOut as reason:
            left_out[precision] = str(reason)
    return found, left_out


def own_speed(matrices: Mapping[str, float], precision: str) -> float:
    """FLOP/s of the hardware in a precision; in a lower one than float32 at least float32's, which can stand in."""
    lower = PRECISIONS[precision].tf32 or PRECISIONS[precision].autocast
    return max(matrices[precision], matrices.get(PLAIN, 0.0) if lower else 0.0)


def show(speeds: Speeds, best: Setting, studies: Studies, console: Console) -> None:
    """Print all rows, what was left out, the line to use, and how long studies take with it."""
    console.print(row_table(speeds.rows))
    say(legend(speeds.rows))
    own = (f"{precision} {speed / 1e9:,.3g} GFLOP/s" for precision, speed in speeds.matrices.items())
    say(f"products of large matrices: {', '.join(own)}")
    if speeds.machine.device == "cuda":
        taken = "unknown" if speeds.context is None else f"{speeds.context / 2**20:,.0f} MiB"
        say(f"memory that CUDA takes for each process: {taken}")
        say(
            "MPS: " + ("runs" if speeds.mps else "does not run; see docs/gpu.md for what it does for trials on one GPU")
        )
    for what, reason in speeds.left_out.items():
        say(f"left out: {what} ({reason})")
    for precision, factor in speeds.by_precision().items():
        say(f"{precision}: {factor:.2g} times as fast as {PLAIN}, and another experiment (--set precision={precision})")
    at_once = best.at_once * max(1, speeds.machine.gpus)
    console.print(study_table(speeds, best, at_once, studies))
    say("times: of local training and scoring; models that were not measured go by their operations")
    say(f"use: {line_to_use(best, speeds.machine)}")


def narrow(*columns: str) -> Table:
    """A table that fits into 80 columns."""
    return Table(*columns, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def row_table(rows: Iterable[Row]) -> Table:
    """What was measured."""
    table = narrow("model", "engine", "precision", "trials")
    for name in ("samples/s", "rounds/min", "MiB", "share"):
        table.add_column(name, justify="right")
    for row in rows:
        measured = (
            f"{row.samples:,.0f}",
            f"{row.rounds:.3g}",
            f"{row.memory / 2**20:,.0f}",
            f"{100 * row.share:.0f} %",
        )
        table.add_row(row.model, row.engine, row.precision, f"{row.at_once} x {row.threads}", *measured)
    return table


def legend(rows: Sequence[Row]) -> str:
    """What the columns are, and what a round is for each model."""
    rounds = {row.model: paper_config(row.data, row.model) for row in rows}
    each = "; ".join(f"{model}: {config.data.name}, {config.clients.epochs} epochs" for model, config in rounds.items())
    return (
        "trials: at once x threads of each; samples and rounds: of all together; MiB: of each\n"
        "share: of the hardware's own speed in products of large matrices\n"
        f"a round: 20 clients, {100 * (1 - HOLDOUT):.0f} % of the training images, scored ({each})"
    )


def line_to_use(best: Setting, machine: Machine) -> str:
    """The options for a study on this machine."""
    if machine.device == "cpu":
        return f"--cpus-per-trial {best.threads}"
    cpus = math.floor(100 * machine.cpus / (best.at_once * machine.gpus)) / 100
    fewer = f" --cpus-per-trial {cpus:g}" if cpus < 1 else ""  # else they would hold trials back
    return f"--gpus-per-trial {1 / best.at_once:g}{fewer} --set run.engine={best.engine}"


def study_table(speeds: Speeds, best: Setting, at_once: int, studies: Studies) -> Table:
    """How long every study takes at scale paper, and all together; trials that several share are run once."""
    together = {hash_: config for trials in studies.values() for hash_, config in trials.items()}
    table = narrow("study at scale paper")
    table.add_column("trials", justify="right")
    table.add_column(f"time, {at_once} at once", justify="right")
    for name, trials in [*studies.items(), ("all", together)]:
        table.add_row(name, f"{len(trials):,}", span(duration(speeds, best, trials.values()) / at_once))
    return table


def duration(speeds: Speeds, setting: Setting, trials: Iterable[TrialConfig]) -> float:
    """Seconds of some trials one after the other, while others run as the setting says."""
    return sum(speeds.seconds(config, setting) or 0.0 for config in trials)


def span(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"


class SpeedProgress(LiveLine):
    """Counts cases. A context manager."""

    def __init__(self, total: int, console: Console) -> None:
        self._done, self._total = 0, total
        if console.is_terminal:
            self._bar = Progress(FieldColumn("counts"), BarColumn(bar_width=24), FieldColumn("latest"), console=console)
            self._task = self._bar.add_task("", total=total, counts=f"0/{total}", latest="starting")

    def skip(self, count: int) -> None:
        """So many are not measured."""
        self._total -= count

    def measured(self, text: str) -> None:
        """A case has been measured, or left out."""
        self._done += 1
        counts = f"{self._done}/{self._total}"
        if self._bar:
            self._bar.update(self._task, completed=self._done, total=self._total, counts=counts, latest=text)
        else:
            say(f"{counts}  {text}")
