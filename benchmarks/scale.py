"""How time and memory grow with the number of trials: python benchmarks/scale.py [--trials 100 1000 10000].

The store is filled with synthetic entries: copies of one real trial of a single tiny round, each with a config and an
accuracy of its own. For every number of trials, four commands are measured, each in a process of its own:

- report: `python -m fedbench.report`;
- page: writing the page of a running study once more after one trial has ended (the time of this rewrite only);
- list: `python -m fedbench.study --list`;
- no-op: `python -m fedbench.study` with all trials stored, which must take at most 10 CPU seconds for 10,000 trials.

With `--start`, a study of so many trials is run instead: the seconds from the command to the first stored entry, the
milliseconds of CPU that the driver takes per further trial (at most 15), and its peak memory. This part needs Linux.

Everything but the seconds of `--start` is CPU time, so that other processes on the machine matter little.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedbench.config import TrialConfig
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.store.execute import execute
from fedbench.store.store import MARKER, SUMMARY, Store

TRIALS = (100, 1_000, 10_000)
SEEDS = 10
ALPHAS = (100, 10, 1, 0.5, 0.1)
NO_OP_LIMIT = 10.0  # CPU seconds over LIMIT_TRIALS stored entries
LIMIT_TRIALS = 10_000
DRIVER_LIMIT = 15.0  # milliseconds of CPU per trial
LOOK_SECONDS = 0.1  # between two looks at the driver of a running study
STUDY = """
title: Scale
shows: How time and memory grow with the number of trials.
base: {{method.name: fixed_gamma, rounds: 1, data.train_size: 200, data.test_size: 200, clients.count: 5}}
grid:
  data.alpha: {alphas}
  method.gamma: {gammas}
seeds: {seeds}
baseline: {{method.gamma: 1.0}}
tables:
  accuracy: {{rows: [method.gamma], columns: [data.alpha], best: column}}
plots:
  curves: {{kind: curves, y: test_accuracy, colour: method.gamma, panels: [data.alpha]}}
claims:
  - {{says: Some gamma beats 1., check: some_point_beats_baseline, axis: method.gamma, value: test_accuracy}}
scales:
  quick: {{}}
"""
PAGE = """
import sys, time
from pathlib import Path
from rich.console import Console
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from fedbench.jobs.live import LivePages
from fedbench.console.progress import StudyProgress

study = expand(sys.argv[1], "quick", changes={}, only={}, seeds=None)
last, config = list(study.trials.items())[-1]
progress = StudyProgress({last: config}, {last: "last"}, Console(file=sys.stderr))
pages = LivePages([study], Store(Path(sys.argv[2])), progress)
pages._try(running=True)
progress.ended(last, "done", "")
started = time.process_time()
pages._try(running=True)
print(time.process_time() - started)
"""


@dataclass(frozen=True)
class Cost:
    """What a process and all its children took: CPU seconds, and the peak memory of the largest one in MiB."""

    seconds: float
    memory: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.memory:.0f} MiB"


def study_text(trials: int) -> str:
    """A study file of so many trials, a multiple of the number of alphas; more trials mean more gammas."""
    seeds = min(SEEDS, trials // len(ALPHAS) // 2)
    gammas = [round(1 - 0.9 * number / 1000, 4) for number in range(trials // len(ALPHAS) // seeds)]
    return STUDY.format(alphas=list(ALPHAS), gammas=gammas, seeds=list(range(seeds)))


def read_study(file: Path) -> ScaledStudy:
    """The expanded study of a file."""
    return expand(str(file), "quick", changes={}, only={}, seeds=None)


def template(config: TrialConfig) -> dict[str, bytes]:
    """The files of a real entry of a trial, without its mark."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.prepare()
        files = execute(config, store, None).files()
    return {name: content for name, content in files.items() if name != MARKER}


def fill(study: ScaledStudy, store: Store) -> None:
    """Write an entry for every trial of a study, without waiting for the disk as `Store.commit` does."""
    files = template(next(iter(study.trials.values())))
    for hash_, config in study.trials.items():
        entry = store.trials / hash_
        entry.mkdir(parents=True)
        for name, content in synthetic_entry(files, config).items():
            (entry / name).write_bytes(content)


def synthetic_entry(files: Mapping[str, bytes], config: TrialConfig) -> dict[str, bytes]:
    """The files of another trial's entry, changed to those of a trial with an accuracy of its own, and its mark."""
    accuracy = round(random.Random(config.hash).uniform(0.4, 0.6), 6)
    head, row = (line.split(",") for line in files["rounds.csv"].decode().splitlines())
    row[head.index("test_accuracy")] = str(accuracy)
    scores = {f"{which}_accuracy": accuracy for which in ("final", "best", "last")}
    summary = {**json.loads(files[SUMMARY]), **scores, "hash": config.hash, "seed": config.seed}
    made = {
        **files,
        # A line of JSON for each key is YAML, too, and much faster to write.
        "config.yaml": "".join(f"{key}: {json.dumps(value)}\n" for key, value in config.plain().items()).encode(),
        "rounds.csv": "".join(f"{','.join(line)}\n" for line in (head, row)).encode(),
        SUMMARY: json.dumps(summary).encode(),
    }
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}
    mark = {"hash": config.hash, "status": "done", "reason": None, "summary": summary, "files": sums}
    return {**made, MARKER: json.dumps(mark).encode()}


def measured(command: Sequence[str]) -> tuple[Cost, str]:
    """Run a command; returns its cost and what it printed. SystemExit if it fails."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{command!r} failed")
        output.seek(0)
        return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), output.read()


def measure(trials: int, folder: Path) -> dict[str, Cost]:
    """The costs of all commands over so many stored trials, by name."""
    file, out = folder / "scale.yaml", folder / "out"
    file.write_text(study_text(trials))
    fill(read_study(file), Store(out))
    module = [sys.executable, "-m"]
    where = ["--out", str(out)]
    report, _ = measured([*module, "fedbench.report", str(file), *where])
    page, printed = measured([sys.executable, "-c", PAGE, str(file), str(out)])
    listed, _ = measured([*module, "fedbench.study", "--list", *where])
    no_op, said = measured([*module, "fedbench.study", str(file), *where])
    if f"{trials} trials, {trials} of them done" not in said:
        raise SystemExit(f"not all of the {trials} synthetic entries count as done")
    return {"report": report, "page": Cost(float(printed.split()[-1]), page.memory), "list": listed, "no-op": no_op}


def row(cells: Sequence[object]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def stored(sizes: Sequence[int]) -> bool:
    """Print the table of costs over stored trials; returns whether the no-op command is within its limit."""
    fits = True
    print(row(["trials", "report", "page", "list", "no-op"]))
    print(row(["---"] * 5))
    for trials in sizes:
        with tempfile.TemporaryDirectory() as folder:
            costs = measure(trials, Path(folder))
        fits &= costs["no-op"].seconds <= NO_OP_LIMIT or trials > LIMIT_TRIALS
        print(row([f"{trials:,}", *costs.values()]), flush=True)
    return fits


@dataclass(frozen=True)
class Driver:
    """The processes of a running command whose command line names its study file: the driver, but not Ray."""

    file: Path
    pid: int

    def pids(self) -> list[int]:
        """Their process ids: the command itself, and those among its descendants."""
        found, left = [], [self.pid]
        while left:
            pid = left.pop()
            try:
                left += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
                if os.fsencode(self.file) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    found.append(pid)
            except OSError:  # it has just ended
                continue
        return found

    def cost(self) -> Cost:
        """CPU seconds of all of them so far, and the peak memory of the largest."""
        ticks, peak = 0, 0
        for pid in self.pids():
            try:
                ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            peak = max(peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
        return Cost(ticks / os.sysconf("SC_CLK_TCK"), peak / 1024)


def count_entries(out: Path) -> int:
    """How many trials are stored."""
    return len(list(out.glob("trials/[0-9a-f]*")))


def start(trials: int, folder: Path) -> tuple[float, Cost]:
    """Run a study; returns the seconds to the first stored entry, and the driver's cost from there to the last one."""
    file, out = folder / "start.yaml", folder / "out"
    file.write_text(study_text(trials))
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "fedbench.study", str(file), "--out", str(out)], stdout=subprocess.DEVNULL
    )
    driver = Driver(file, process.pid)
    try:
        while not (entries := count_entries(out)):
            _check_running(process)
            time.sleep(0.01)
        seconds, before = time.perf_counter() - began, driver.cost()
        missing, cost = trials - entries, before
        while entries < trials:
            _check_running(process)
            time.sleep(LOOK_SECONDS)
            entries, cost = count_entries(out), driver.cost()
        process.wait()
    finally:
        process.terminate()
        process.wait()
    return seconds, Cost((cost.seconds - before.seconds) / max(1, missing), cost.memory)


def _check_running(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        raise SystemExit(f"{process.args!r} ended before all trials were stored")


def started(sizes: Sequence[int]) -> bool:
    """Print the table of starts; returns whether the driver's CPU per trial is within its limit."""
    fits = True
    print(row(["trials", "first stored entry", "driver's CPU per trial", "driver's memory"]))
    print(row(["---"] * 4))
    for trials in sizes:
        with tempfile.TemporaryDirectory() as folder:
            seconds, cost = start(trials, Path(folder))
        each = 1000 * cost.seconds
        fits &= each <= DRIVER_LIMIT
        print(row([f"{trials:,}", f"{seconds:.1f} s", f"{each:.1f} ms", f"{cost.memory:.0f} MiB"]), flush=True)
    return fits


def main(arguments: Sequence[str]) -> int:
    """Print the table that the options ask for; returns 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(
        description="How time and memory grow with the number of trials.", allow_abbrev=False
    )
    parser.add_argument("--trials", type=int, nargs="+", default=TRIALS, help="multiples of 100 (10 with --start)")
    parser.add_argument("--start", action="store_true", help="run studies of so many trials instead")
    options = parser.parse_args(arguments)
    return 0 if (started if options.start else stored)(options.trials) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
