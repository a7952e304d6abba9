"""Command lines by the thousand: one process imports everything and forks for each of them, within limits.

A child of its own for each keeps what one leaves behind (plugins, threads, memory) from the next; it costs little.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

CPU_SECONDS, SECONDS = 40, 240  # what takes longer, or waits longer, hangs; a slow machine that is busy is no hang
MEMORY = 2**30  # bytes that a command may take
CRASH = 70  # the exit code of a command that raised
WARM = (  # a method with an optimiser, for which torch imports its compiler, which makes a folder of its own
    "--set rounds=1 --set data.train_size=60 --set data.test_size=60 --set clients.count=3 --set proxy.size=10 "
    "--set method.name=adaptive_gws --set method.epochs=1"
)


class Outcome(NamedTuple):
    """How a command ended: its exit code (below 0 for a signal), what it printed, and the most memory that it had."""

    code: int
    out: str
    err: str
    memory: int


class CommandServer:
    """A process that runs commands; `run` runs one in a folder."""

    def __init__(self, scratch: Path, environment: Mapping[str, str]) -> None:
        self.printed = [scratch / "stdout", scratch / "stderr"]
        one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzzing.server", *map(str, self.printed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **one_thread, **environment, "PYTHONUTF8": "1", "COLUMNS": "100"},
            cwd=Path(__file__).parents[2],
            text=True,
        )
        self._answer()  # it is warm

    def run(self, folder: Path, *arguments: str) -> Outcome:
        """Run a command, its name first, in a folder."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([str(folder), *arguments]) + "\n")
        self.process.stdin.flush()
        code, memory = self._answer()
        out, err = (path.read_bytes().decode(errors="backslashreplace") for path in self.printed)
        return Outcome(code, out, err, memory)

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process that runs commands has died"
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def warm(commands: Mapping[str, Any]) -> None:
    """Import and look up whatever commands need, and put the arrays of the embedded data into the cache."""
    import matplotlib.pyplot  # noqa: F401

    from fedbench.render import report  # noqa: F401

    for line in (
        "study smoke --dry-run",
        "search fixed_gamma --dry-run",
        "new method my_rule --to /dev/null/nowhere",
        f"trial {WARM}",
    ):
        name, *arguments = line.split()
        sys.argv = ["fedbench", *arguments]
        try:
            commands["run"](commands[name])
        except SystemExit as stopped:
            assert stopped.code == (2 if name == "new" else 0), (line, stopped.code)


def child(commands: Mapping[str, Any], printed: list[str], request: list[str]) -> int:
    """Run one command line, within limits; returns its exit code."""
    for number, path in enumerate(printed, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2 * MEMORY, size + 2 * MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    signal.alarm(SECONDS)
    folder, name, *arguments = request
    os.chdir(folder)
    sys.argv = ["fedbench", *arguments]
    try:
        commands["run"](commands[name])
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else CRASH  # a command says its code
    except BaseException:
        traceback.print_exc()
        code = CRASH
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def serve(printed: list[str]) -> None:
    """Answer requests, a line each: a folder and a command line; a line with exit code and memory comes back."""
    import gc

    from fedbench.cli.command import run
    from tests.commands import clean, data, new, report, search, study, trial, verify

    commands: dict[str, Any] = {"run": run, "study": study, "search": search, "trial": trial, "report": report}
    commands |= {"data": data, "new": new, "clean": clean, "verify": verify}
    answers = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    warm(commands)
    gc.freeze()
    print(json.dumps([0, 0]), file=answers, flush=True)
    requests = os.fdopen(os.dup(0))
    os.dup2(null, 0)
    for line in requests:
        process = os.fork()
        if not process:
            try:
                code = child(commands, printed, json.loads(line))
            finally:
                os._exit(code)
        _, status, usage = os.wait4(process, 0)
        print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024]), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1:])
