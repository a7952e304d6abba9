"""What Ray costs: a study against plain processes for the same runs: python benchmarks/study_overhead.py.

24 trials of about five seconds on 2 CPUs, Ray's start included, over the time that two plain processes take for the
same 24 runs. Both write into a result store. The two measurements are taken one after the other in one run.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 1.25
STUDY = """
title: Overhead
shows: What Ray costs.
base: {method.name: fixed_gamma, rounds: %d}
grid:
  method.gamma: [1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93, 0.92, 0.91, 0.9, 0.89]
seeds: [8, 9]
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


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "overhead.yaml")
        file.write_text(STUDY % rounds)
        python = sys.executable
        plain = measure([[python, "-c", PLAIN, str(file), f"{scratch}/plain", str(part)] for part in range(2)])
        study = measure(
            [[python, "-m", "fedbench.study", str(file), "--out", f"{scratch}/study", "--max-concurrent", "2"]]
        )
    print(
        f"two plain processes {plain:.1f} s, a study on Ray {study:.1f} s: ratio {study / plain:.2f} (at most {LIMIT})"
    )
    sys.exit(0 if study / plain <= LIMIT else 1)
