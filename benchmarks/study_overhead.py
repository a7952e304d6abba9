"""What Ray costs, as three ratios, each measured side by side in one run: python benchmarks/study_overhead.py.

A whole study: 24 trials of about five seconds on 2 CPUs, Ray's start included, over the time that two plain processes
take for the same 24 runs. Both write into a result store.

The start: from the command to the first trial's first round, here with all that is stored of a trial of one round, over
the time of `python -c "import ray, torch"`; the median of some. With --start it is all that is measured.

A sweep: 12 short trials of about two seconds on 2 CPUs, from the command to its end, over the time of the same imports.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 1.4
START_LIMIT = 6.5
STARTS = 5
SWEEP_LIMIT = 16.0
SWEEPS = 3
SWEEP_ROUNDS = 5
IMPORTS = [[sys.executable, "-c", "import ray, torch"]]
STUDY = """
title: Overhead
shows: What Ray costs.
base: {method.name: fixed_gamma, rounds: %d}
grid:
  method.gamma: [1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93, 0.92, 0.91, 0.9, 0.89]
seeds: %s
tables:
  accuracy: {rows: [], columns: [method.gamma]}
scales:
  quick: {}
"""
PLAIN = """
import sys
from pathlib import Path
from fedbench.store.execute import execute
from fedbench.store.store import Store
from fedbench.specs.expand import expand
study = expand(sys.argv[1], "quick", changes={}, only={}, seeds=None)
for config in list(study.trials.values())[int(sys.argv[3])::2]:
    execute(config, Store(Path(sys.argv[2])), None)
"""


def measure(commands: list[list[str]]) -> float:
    """Seconds until all commands, started together, are done."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = time.perf_counter()
    running = [subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) for command in commands]
    for process in running:
        if process.wait():
            raise SystemExit(f"{process.args!r} failed")
    return time.perf_counter() - started


def study_command(file: Path, out: Path) -> list[str]:
    """The command that runs a study, two trials at a time."""
    return [sys.executable, "-m", "fedbench.study", str(file), "--out", str(out), "--max-concurrent", "2"]


def start(file: Path, out: Path) -> float:
    """Seconds from the command to the first trial in the store."""
    command = study_command(file, out)
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not any(out.glob("trials/*/trial.json")):
        if process.poll() is not None:
            raise SystemExit(f"{command!r} ended without a trial")
        time.sleep(0.01)
    seconds = time.perf_counter() - started
    process.wait()
    return seconds


def whole(scratch: Path, rounds: int) -> bool:
    """Print the ratio of a whole study; whether it is within its limit."""
    file = scratch / "overhead.yaml"
    file.write_text(STUDY % (rounds, [8, 9]))
    plain = measure([[sys.executable, "-c", PLAIN, str(file), f"{scratch}/plain", str(part)] for part in range(2)])
    study = measure([study_command(file, scratch / "study")])
    ratio = study / plain
    print(f"two plain processes {plain:.1f} s, a study on Ray {study:.1f} s: ratio {ratio:.2f} (at most {LIMIT})")
    return ratio <= LIMIT


def starts(scratch: Path) -> bool:
    """Print the ratio of the start; whether it is within its limit."""
    file = scratch / "start.yaml"
    file.write_text(STUDY % (1, [8, 9]))
    start(file, scratch / "first")  # from the disk to the cache
    pairs = [(start(file, scratch / f"start-{i}"), measure(IMPORTS)) for i in range(STARTS)]
    first, plain = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for own, other in pairs)
    print(
        f"import ray, torch {plain:.1f} s, to the first trial {first:.1f} s: ratio {ratio:.2f} (at most {START_LIMIT})"
    )
    return ratio <= START_LIMIT


def sweeps(scratch: Path) -> bool:
    """Print the ratio of a sweep; whether it is within its limit."""
    file = scratch / "sweep.yaml"
    file.write_text(STUDY % (SWEEP_ROUNDS, [8]))
    pairs = [(measure([study_command(file, scratch / f"sweep-{i}")]), measure(IMPORTS)) for i in range(SWEEPS)]
    sweep, plain = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for own, other in pairs)
    print(f"import ray, torch {plain:.1f} s, 12 short trials {sweep:.1f} s: ratio {ratio:.2f} (at most {SWEEP_LIMIT})")
    return ratio <= SWEEP_LIMIT


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--start"]
    with tempfile.TemporaryDirectory() as folder:
        fits = starts(Path(folder))
        if "--start" not in sys.argv[1:]:
            fits &= sweeps(Path(folder))
            fits &= whole(Path(folder), int(given[0]) if given else 11)
    sys.exit(0 if fits else 1)
