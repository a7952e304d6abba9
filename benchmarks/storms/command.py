"""A study as a command in a process of its own, watched: what it says, whom it starts, whether it gets on."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil

from fedbench.analysis.tables import TIME_COLUMNS
from fedbench.base.signals import STOPS

STUDY = """
title: Storm
shows: That results do not depend on what happens meanwhile.
base: {data.train_size: 600, data.test_size: 300, clients.count: 5, rounds: %d, method.name: fixed_gamma}
grid:
  data.alpha: [100, 1]
  method.gamma: [1.0, 0.9]
seeds: %s
baseline: {method.gamma: 1.0}
tables: {accuracy: {rows: [data.alpha], columns: [method.gamma], best: row}}
scales: {quick: {}}
"""
LOOK_SECONDS = 0.1
HANG_SECONDS = 180.0  # without a sign of life, after which the storm ends a command itself
GONE_SECONDS = 90.0  # for what a killed command had started to notice that; agents of Ray take a minute
LIBRARIES = ("ray", "torchinductor_", "wandb")  # what these leave in a temporary folder is theirs
LASTING = ".name"  # of the folder, for machines that do not see it
PASSING = ("ray", "damaged")  # folders of OUT that may hold anything: Ray's own, and what was found to be damaged
AWAY = "away"  # the folder of a node's cache that holds checkpoints for a store elsewhere


class Study:
    """A small study in a folder of its own, run by a command that can be started again and again."""

    def __init__(self, scratch: Path, rounds: int, seeds: int, options: Sequence[str] = ()) -> None:
        self.scratch, self.out, self.temporary = scratch, scratch / "out", scratch / "t"
        self.clocks, self.cache, self.options = scratch / "clocks", scratch / "cache", options
        self.out.mkdir(exist_ok=True)
        self._env = {**os.environ, **environment(scratch)}
        self.file = scratch / "storm.yaml"
        self.file.write_text(STUDY % (rounds, list(range(8, 8 + seeds))))
        self.process: subprocess.Popen[bytes] | None = None
        self.longest, self.waited_after = 0.0, ""  # the longest wait, and what had been said before
        self._seen: set[psutil.Process] = set()
        self._log, self._start = scratch / "log", 0  # what was said before the last start, in bytes
        self._sign: object = None
        self._signed = time.monotonic()

    def start(self) -> None:
        """Start the command, as a user would."""
        command = [sys.executable, "-m", "fedbench.study", str(self.file), "--out", str(self.out), *self.options]
        with self._log.open("ab") as log:
            self._start = log.tell()
            self.process = subprocess.Popen(
                command, env=self._env, cwd=self.scratch, stdout=log, stderr=log, preexec_fn=_heed_signals
            )
        self._signed = time.monotonic()

    @property
    def said(self) -> str:
        """All that the command has said, over all its starts."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def said_last(self) -> str:
        """What the command has said since its last start."""
        return self._log.read_bytes()[self._start :].decode(errors="replace")

    @property
    def parent(self) -> psutil.Process:
        """The process that was started; it waits for its child."""
        assert self.process
        return psutil.Process(self.process.pid)

    @property
    def child(self) -> list[psutil.Process]:
        """The process that does the work of the command, once there is one."""
        with suppress(psutil.Error):
            return list(self.parent.children())
        return []

    def others(self, what: str) -> list[psutil.Process]:
        """Processes that the command has started and whose command line has some text in it."""
        found = []
        for child in sorted(self._seen, key=lambda child: child.pid):
            with suppress(psutil.Error):
                if what in " ".join(child.cmdline()):
                    found.append(child)
        return found

    def look(self) -> int | None:
        """Take in what there is; returns the command's exit code if it has ended."""
        assert self.process
        code = self.process.poll()
        with suppress(psutil.Error):
            self._seen.update(self.parent.children(recursive=True))
        if (sign := self._signs()) != self._sign or code is not None:
            self._sign, self._signed = sign, time.monotonic()
        if (waited := time.monotonic() - self._signed) > self.longest:
            self.longest, self.waited_after = waited, (self.said.strip().splitlines() or [""])[-1]
        if time.monotonic() - self._signed > HANG_SECONDS:
            self.process.kill()
        return code

    def watch(self, seconds: float) -> None:
        """Let time pass."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(LOOK_SECONDS)

    def _signs(self) -> tuple[int, int, int]:
        """What changes when something gets on: what was said, stored, and reported by trials."""
        said = self._log.stat().st_size
        with suppress(OSError):  # a folder that is just being removed
            reported = sum(path.stat().st_size for path in self.temporary.rglob("driver_artifacts/*/result.json"))
            return said, len(self.stored()), reported
        return said, 0, 0

    def stored(self) -> list[Path]:
        """The entries of the store."""
        return sorted(self.out.glob("trials/[0-9a-f]*"))

    def results(self) -> tuple[str, str]:
        """The table, and the cells without time and memory; empty if there are none."""
        folder = self.out / "studies" / "storm" / "quick"
        if not (folder / "cells.csv").exists():
            return "", ""
        cells = pd.read_csv(folder / "cells.csv").drop(columns=list(TIME_COLUMNS))
        return (folder / "table.csv").read_text(), cells.to_csv()

    def left_over(self) -> list[str]:
        """Processes that outlive the command, and temporary files, in words. The processes are ended."""
        for child in list(self._seen):
            with suppress(psutil.Error):
                self._seen.update(child.children(recursive=True))
        _, alive = psutil.wait_procs([child for child in self._seen if _runs(child)], timeout=GONE_SECONDS)
        left = [f"process {child.pid} {child.name()}" for child in alive if _runs(child)]
        for child in alive:
            with suppress(psutil.Error):
                child.kill()
        files = [path for path in self.out.rglob("*") if path.relative_to(self.out).parts[0] not in PASSING]
        left += [
            str(path)
            for path in files
            if path.name != LASTING and (path.name.startswith(".") or path.parent.name in ("leases", "checkpoints"))
        ]
        ours = [path for path in self.temporary.iterdir() if not any(name in path.name for name in LIBRARIES)]
        return left + list(map(str, [*ours, *(self.cache / AWAY).glob("*")]))


def environment(scratch: Path) -> dict[str, str]:
    """Variables of all processes of a study: temporary folder, cache and clock are the storm's. Makes the folders."""
    folders = {"TMPDIR": scratch / "t", "FEDBENCH_CACHE": scratch / "cache", "STORM_CLOCKS": scratch / "clocks"}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    path = [str(Path(__file__).parent / "clock"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**{name: str(folder) for name, folder in folders.items()}, "PYTHONPATH": os.pathsep.join(path)}


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for one study, of a short name: Ray's sockets are in it."""
    return tempfile.TemporaryDirectory(prefix="storm-", dir="/tmp", ignore_cleanup_errors=True)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _heed_signals() -> None:
    """For the command: signals count, even where the storm itself runs in the background."""
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)
