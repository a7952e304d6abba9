"""The thin parent of a command: when it goes on with a fresh child, and when not. Real processes, without Ray."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import heed_interrupts

# What a child does, the first time and again: by name, and in a folder of its own.
CHILD = """
import atexit, os, signal, subprocess, sys, time
from pathlib import Path
from fedbench.tune import supervise
from fedbench.tune.supervise import STARTING, STOPPING, supervised

def ray(name):
    return subprocess.Popen([Path.cwd() / name, "600"])

def work():
    child, case = supervise.child, sys.argv[1]
    print("work", child.deaths, child.stop, flush=True)
    if case == "kill before":
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "lingers":
        atexit.register(time.sleep, 600)
    if case in ("fine", "wrong", "lingers"):
        return {"fine": 0, "wrong": 3, "lingers": 4}[case]
    if child.deaths == 1 and case != "always":
        return 0
    child.tell(STARTING)
    started = [ray("gcs_server"), ray("raylet")]
    if case in ("held", "always"):
        started[0].kill()
    if case == "exit":
        os._exit(1)
    if case == "told":
        child.die("Ray did not start")
    if case == "stopping":
        child.tell(STOPPING)
    if case == "deaf":
        signal.signal(signal.SIGHUP, lambda *_: print("heard", flush=True))
    print("pids", os.getpid(), *(process.pid for process in started), flush=True)
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        return 130

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
supervise.STOP_SECONDS = 2.0
supervise.START_SECONDS = 2.0 if sys.argv[1] == "slow" else 120.0
sys.exit(supervised(work, 2))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with processes that have the names of Ray's."""
    for name in ("gcs_server", "raylet"):
        shutil.copy(str(shutil.which("sleep")), tmp_path / name)
    return tmp_path


def start(case: str, place: Path) -> "subprocess.Popen[str]":
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD, case]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=place, env=env, preexec_fn=heed_interrupts, **pipes)


def left_in(place: Path) -> list[str]:
    return [process.name() for process in psutil.process_iter() if _program(process).startswith(str(place))]


def _program(process: psutil.Process) -> str:
    try:
        return str(process.exe())
    except psutil.Error:
        return ""


@pytest.mark.parametrize(
    ("case", "code", "says"),
    [
        ("fine", 0, ["work 0 0"]),
        ("wrong", 3, ["work 0 0"]),
        ("lingers", 4, ["work 0 0"]),
        ("kill before", 137, ["work 0 0"]),
        ("held", 0, ["Ray's control store has died; starting it again", "work 1 0"]),
        ("exit", 0, ["work 0 0", "Ray has ended the command; starting it again", "work 1 0"]),
        ("told", 0, ["work 0 0", "Ray did not start; starting it again", "work 1 0"]),
        ("slow", 0, ["work 0 0", "Ray did not start within 2 s; starting it again", "work 1 0"]),
        ("stopping", 0, ["work 1 0"]),
    ],
)
def test_a_child_that_ray_takes_with_it_is_followed_by_another_and_no_process_is_left(
    case: str, code: int, says: list[str], place: Path
) -> None:
    process = start(case, place)
    text, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (code, "")
    lines = [line for line in text.splitlines() if not line.startswith("pids")]
    assert lines[-len(says) :] == says
    assert not left_in(place)


def test_ray_may_die_as_often_as_is_said_and_the_last_child_is_told(place: Path) -> None:
    process = start("always", place)
    wanted = ["work 0 0", "starting it again", "work 1 0", "starting it again", "work 2 0", "giving up", "work 3 0"]
    assert process.stdout
    lines = (line for line in iter(process.stdout.readline, "") if not line.startswith("pids"))
    for text, line in zip(wanted, lines, strict=False):
        assert line.strip().endswith(text)
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_signals_are_passed_on_and_no_child_outlives_its_parent(number: int, code: int, place: Path) -> None:
    process = start("wait", place)
    assert process.stdout
    while not (line := process.stdout.readline()).startswith("pids"):
        assert line
    others = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    assert process.wait(timeout=60) == code
    assert len(others) == 4  # the parent, the child, and Ray's two
    assert not psutil.wait_procs(others, timeout=60)[1]


def test_a_child_that_dies_while_it_is_being_stopped_is_followed_by_one_that_stops(place: Path) -> None:
    process = start("deaf", place)
    assert process.stdout
    while not (line := process.stdout.readline()).startswith("pids"):
        assert line
    process.send_signal(signal.SIGHUP)
    while not (heard := process.stdout.readline()).startswith("heard"):
        assert heard
    psutil.Process(int(line.split()[2])).kill()
    text, _ = process.communicate(timeout=60)
    assert f"work 1 {signal.SIGHUP}" in text


@pytest.mark.parametrize("who", ["relay", "parent", "child"])
def test_a_command_that_is_stopped_for_longer_than_a_look_goes_on_as_if_it_had_not_been(who: str, place: Path) -> None:
    process = start("wait", place)
    assert process.stdout
    while not (line := process.stdout.readline()).startswith("pids"):
        assert line
    child = psutil.Process(int(line.split()[1]))
    met = {"relay": psutil.Process(process.pid), "parent": child.parent(), "child": child}[who]
    assert met
    met.suspend()
    time.sleep(2.5)
    met.resume()
    time.sleep(1.5)
    assert process.poll() is None
    process.terminate()
    assert (process.communicate(timeout=60), process.returncode) == (("", ""), 143)
