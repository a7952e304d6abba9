"""How quickly the command lines answer, as ratios to `import torch`, measured side by side.

    python benchmarks/startup.py

Help, a wrong option and an unknown study must come back before anything heavy is imported (at most 0.4 of the time that
`import torch` takes); a list of all studies, which expands every one of them, within 1.5.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 7
MODULE = [sys.executable, "-m"]
TORCH = [sys.executable, "-c", "import torch"]
COMMANDS: list[tuple[str, list[str], float]] = [  # in words, command, the most that it may take
    ("fedbench --help", [*MODULE, "fedbench", "--help"], 0.4),
    ("study --help", [*MODULE, "fedbench.study", "--help"], 0.4),
    ("search --help", [*MODULE, "fedbench.search", "--help"], 0.4),
    ("trial --help", [*MODULE, "fedbench.trial", "--help"], 0.4),
    ("report --help", [*MODULE, "fedbench.report", "--help"], 0.4),
    ("an unknown option", [*MODULE, "fedbench.study", "--nonsense"], 0.4),
    ("an unknown study", [*MODULE, "fedbench.study", "fixed_gama"], 0.4),
    ("study --list", [*MODULE, "fedbench.study", "--list"], 1.5),
    ("search --list", [*MODULE, "fedbench.search", "--list"], 1.5),
]


def seconds(command: Sequence[str]) -> float:
    """Wall clock of one process."""
    started = time.perf_counter()
    subprocess.run(command, capture_output=True, cwd=Path(__file__).parent.parent, check=False)
    return time.perf_counter() - started


def main() -> int:
    """Print a line a command; 1 if any takes longer than it may."""
    slow = 0
    seconds(TORCH)  # from the disk to the cache
    for words, command, most in COMMANDS:
        pairs = [(seconds(command), seconds(TORCH)) for _ in range(ROUNDS)]
        ratio = statistics.median(own / torch for own, torch in pairs)
        middle = statistics.median(own for own, _ in pairs)
        slow += ratio > most
        print(f"{words:20} {middle:5.2f} s, {ratio:4.2f} of import torch (at most {most})", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
