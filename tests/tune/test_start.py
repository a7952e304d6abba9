"""Ray starts while the command still imports and reads its study: no later than it is needed, and never for nothing."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import ray

from tests.commands import study as main
from tests.conftest import heed_interrupts
from tests.helpers import wait_until

# What only other parts of a command need; ray.tune itself imports pandas.
HEAVY = (
    "scipy",
    "matplotlib",
    "optuna",
    "sympy",
    "fedbench.analysis",
    "fedbench.render",
    "fedbench.searches",
    "fedbench.api",
    "fedbench.cli",
    "fedbench.console",
    "fedbench.jobs",
)
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
        """The command, started in a process group of its own."""
        self.ray.mkdir(exist_ok=True)
        self._known = self._sessions()
        line = [sys.executable, "-m", "fedbench.study", str(self.file), "--out", str(self.out), *arguments]
        return subprocess.Popen(
            line,
            env={**os.environ, "RAY_TMPDIR": str(self.ray)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
            process_group=0,
        )

    @property
    def started(self) -> bool:
        """Whether the last command has started Ray."""
        return bool(self._sessions() - self._known)

    def _sessions(self) -> set[Path]:
        return {path for path in self.ray.glob("ray/session_*") if path.name != "session_latest"}

    def processes(self) -> list[psutil.Process]:
        """All processes of commands on this study: the commands themselves, Ray's, and those that Ray has started."""
        return [process for process in psutil.process_iter() if _environment(process) == str(self.ray)]


def _environment(process: psutil.Process) -> str:
    try:
        return str(process.environ().get("RAY_TMPDIR", ""))
    except psutil.Error:  # it has ended, or belongs to somebody else
        return ""


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


def test_the_process_that_stores_results_does_not_import_torch() -> None:
    subprocess.run(
        [sys.executable, "-c", "import sys, fedbench.tune.home; sys.exit('torch' in sys.modules)"], check=True
    )


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
    output, error = process.communicate(timeout=200)
    assert process.returncode == 2, output + error
    assert len(error.splitlines()) == 1
    assert error.startswith("error:")
    assert not output
    assert small.started
    wait_until(lambda: not small.processes())


def running(name: str) -> Callable[[Small, "subprocess.Popen[str]"], bool]:
    """A moment: one of Ray's processes is there."""
    return lambda small, _: any(name in _line(process) for process in small.processes())


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def printed(text: str) -> Callable[[Small, "subprocess.Popen[str]"], bool]:
    """A moment: the command has printed something."""

    def has(_: Small, process: "subprocess.Popen[str]") -> bool:
        assert process.stdout
        return any(text in line for line in iter(process.stdout.readline, ""))

    return has


def imports_ray(small: Small, process: "subprocess.Popen[str]") -> bool:
    """A moment: the child of the command is there, and imports Ray or is about to."""
    return bool(psutil.Process(process.pid).children())


MOMENTS = {
    "import": imports_ray,
    "control store": running("gcs_server"),
    "raylet": running("raylet/raylet"),
    "agent": running("runtime_env/agent/main.py"),
    "study read": printed("1 trials"),
    "wait for ray": printed("starting Ray"),
    "ray there": printed("starting workers"),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    ("send", "number"),
    [
        (os.kill, signal.SIGTERM),  # from a service manager
        (os.killpg, signal.SIGINT),  # from a terminal, as is the next one
        (os.killpg, signal.SIGHUP),
        *(pytest.param(os.kill, number, marks=pytest.mark.thorough) for number in (signal.SIGINT, signal.SIGHUP)),
        pytest.param(os.killpg, signal.SIGTERM, marks=pytest.mark.thorough),
    ],
)
def test_a_signal_while_ray_starts_in_the_background_ends_both(
    small: Small, moment: str, send: Callable[[int, int], None], number: signal.Signals
) -> None:
    process = small.command("--fresh")
    while not MOMENTS[moment](small, process):
        assert process.poll() is None, process.communicate()
    send(process.pid, number)
    output, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number, output + error
    # Before the study is read, nothing is known of what is left.
    read = f"1 trial is left; go on with: {sys.executable} -m fedbench.study {small.file} --out {small.out}"
    assert "Traceback" not in error
    if (send, number) != (os.killpg, signal.SIGTERM):  # which ends Ray's own processes, too: Ray may tell of that
        assert error.splitlines() in (["interrupted"], [read])
    wait_until(lambda: not small.processes())


def test_a_second_signal_while_ray_starts_ends_the_command_at_once(small: Small) -> None:
    process = small.command("--fresh")
    while not running("gcs_server")(small, process):
        assert process.poll() is None, process.communicate()
    while process.poll() is None:  # those of the first second count as the same one
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    output, error = process.communicate()
    assert (process.returncode, error) == (130, "interrupted\n"), output
    wait_until(lambda: not small.processes())


def test_a_ray_that_does_not_ask_for_a_token_is_refused_in_one_line(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray._private.worker.enable_token_auth_by_default", lambda: False)  # as in an older Ray
    code, _, error = command(main, "smoke", "--scale", "tiny", "--out", str(tmp_path / "out"))
    assert (code, len(error.splitlines())) == (2, 1), error
    assert f"error: Ray {ray.__version__} does not ask for a token" in error
    assert not ray.is_initialized()
