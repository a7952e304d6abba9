"""Ray starts while the command still imports and reads its study: no later than it is needed, and never for nothing."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fedbench.base.signals import STOPS
from tests.conftest import heed_interrupts

HEAVY = ("ray.tune", "pandas", "scipy", "matplotlib", "optuna", "sympy")
PLUGIN = """
import json, sys
from typing import Literal
from fedbench.methods import Method, MethodSettings, Update, register_method

class Settings(MethodSettings):
    name: Literal["spying"] = "spying"

@register_method(version="1")
class Spying(Method[Settings]):
    Settings = Settings

    def aggregate(self, cohort, state, server):
        with open(SEEN, "w") as stream:
            json.dump([name for name in HEAVY if name in sys.modules], stream)
        return Update(w=cohort.W.mean(0), lambda_=cohort.p)
"""
STUDY = """
title: Small
shows: x
import: [spying]
base: {data.train_size: 300, data.test_size: 100, proxy.size: 20, clients.count: 4, method.name: spying, rounds: 1}
grid: {data.alpha: [1.0]}
seeds: [8]
tables: {accuracy: {rows: [data.alpha], columns: []}}
scales: {quick: {}}
"""


class Small:
    """A study of one trial in a folder of its own, with Ray's files beside it."""

    def __init__(self, folder: Path) -> None:
        self.seen, self.ray = folder / "seen.json", folder / "ray"
        self.file, self.out = folder / "small.yaml", folder / "out"
        self.file.write_text(STUDY)
        (folder / "spying.py").write_text(f"SEEN, HEAVY = {str(self.seen)!r}, {HEAVY!r}\n{PLUGIN}")

    def command(self, *arguments: str) -> "subprocess.Popen[str]":
        """The command, started."""
        self.ray.mkdir(exist_ok=True)
        line = [sys.executable, "-m", "fedbench.study", str(self.file), "--out", str(self.out), *arguments]
        return subprocess.Popen(
            line,
            env={**os.environ, "RAY_TMPDIR": str(self.ray)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
        )

    @property
    def started(self) -> bool:
        """Whether Ray was started since this was asked for last."""
        sessions = list(self.ray.glob("ray/session_*"))
        new = [path for path in sessions if path.name != "session_latest" and path not in self._known]
        self._known = set(sessions)
        return bool(new)

    _known: set[Path] = set()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short path: Ray's sockets are below it."""
    with tempfile.TemporaryDirectory(prefix="fb", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def small(folder: Path) -> Small:
    """The study, run once."""
    study = Small(folder)
    process = study.command()
    output, error = process.communicate()
    assert process.returncode == 0, output + error
    assert study.started
    return study


def test_the_process_of_a_trial_has_imported_only_what_a_trial_needs(small: Small) -> None:
    assert json.loads(small.seen.read_text()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 0), (["--dry-run", "--fresh"], 0), (["--fresh", "--address", "localhost:1"], 2), (["--seeds", "8"], 0)],
)
def test_ray_does_not_start_where_nothing_will_run_here(small: Small, arguments: list[str], code: int) -> None:
    process = small.command(*arguments)
    output, error = process.communicate()
    assert process.returncode == code, output + error
    assert not small.started


def test_ray_ends_without_a_word_if_it_was_started_for_nothing(small: Small) -> None:
    process = small.command("--fresh", "--set", "method.nonsense=1")
    children = children_once(process, "raylet")
    output, error = process.communicate()
    assert process.returncode == 2, output + error
    assert len(error.splitlines()) == 1
    assert error.startswith("error:")
    assert not output
    assert small.started
    assert not left(children)


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_while_ray_starts_in_the_background_ends_both(small: Small, number: signal.Signals) -> None:
    process = small.command("--fresh")
    children = children_once(process, "gcs_server")
    process.send_signal(number)
    output, error = process.communicate()
    assert process.returncode == 128 + number, output + error
    # SIGTERM waits while Ray connects: by then the study may have been read, and there is more to say.
    read = f"1 trial is left; go on with: python -m fedbench.study {small.file} --out {small.out}"
    assert error.splitlines() in (["interrupted"], [read])
    assert small.started
    assert not left(children)


def children_once(process: "subprocess.Popen[str]", name: str) -> list[Any]:
    """The processes below a command, once one of that name is there."""
    parent = psutil.Process(process.pid)
    while process.poll() is None:
        children = list(parent.children(recursive=True))
        if any(child.name() == name for child in children if child.is_running()):
            return children
        time.sleep(0.02)
    raise AssertionError(f"no {name}: {process.communicate()}")


def left(processes: list[Any]) -> list[Any]:
    """Those that have not ended some seconds later."""
    _, alive = psutil.wait_procs(processes, timeout=20)
    return list(alive)
