"""The parent of a command: when it starts the command's child again, and when not. Real processes, without Ray."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.conftest import heed_interrupts
from tests.helpers import wait_until

RESTARTS = 2
# What a child does, by name.
COMMAND = """
import ctypes, os, signal, sys, time
from pathlib import Path
from fedbench.base.signals import stop_signals
from fedbench.cli.command import run
from fedbench.cli.supervise import supervised
from fedbench.tune import cluster
from fedbench.tune.options import RunOptions

case, count = sys.argv[1], 0

def heard(number):
    global count
    count += 1
    print("heard", count, flush=True)

def counts(child):
    with stop_signals(heard):
        print("waits", os.getpid(), flush=True)
        while count < 2:
            time.sleep(0.01)
    return 4

def work(child):
    print("work", child.prepared_before, flush=True)
    if case in ("prepared", "prepared, then fine"):
        if case == "prepared, then fine" and child.prepared_before:
            return 0
        child.prepared()
    if case in ("killed", "prepared", "prepared, then fine"):
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "exits":
        os._exit(5)
    if case == "restart":
        child.restart("Ray has died")
    if case == "stuck":
        cluster.START_SECONDS = 0.5
        with cluster.limited(RunOptions(Path("out"), supervised=True)):
            ctypes.PyDLL(None).sleep(600)  # a call that holds the lock of the interpreter
    if case == "raises":
        raise OSError("the disk is full")
    if case.isdigit():
        return int(case)
    if case == "counts":
        return counts(child)
    if case == "lost":
        signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    try:
        print("waits", os.getpid(), flush=True)
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        if case == "loses":
            return 1
        raise

run(lambda arguments: supervised(work, RESTARTS, "the same command"))
"""


@contextmanager
def command(case: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a process group of its own, which is killed at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND.replace("RESTARTS", str(RESTARTS)), case],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=heed_interrupts,
        process_group=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def ended(process: "subprocess.Popen[str]") -> tuple[int, list[str], list[str]]:
    """The exit code of a command, and the further lines of its standard output and standard error."""
    out, error = process.communicate(timeout=120)
    return process.returncode, out.splitlines(), error.splitlines()


def child_of(process: "subprocess.Popen[str]") -> psutil.Process:
    """The child of a command, once it waits."""
    assert process.stdout
    line = next(line for line in iter(process.stdout.readline, "") if line.startswith("waits"))
    return psutil.Process(int(line.split()[1]))


def again(code: int, what: str) -> str:
    return f"the command's process has ended unexpectedly ({code}); {what}"


@pytest.mark.parametrize("code", [0, 1, 3, 130])
def test_a_child_that_ends_by_itself_is_not_started_again(code: int) -> None:
    with command(str(code)) as process:
        assert ended(process) == (code, ["work False"], [])


def test_an_error_of_the_child_is_told_once() -> None:
    with command("raises") as process:
        assert ended(process) == (1, ["work False"], ["error: the disk is full"])


@pytest.mark.parametrize(
    ("case", "code", "why"),
    [
        ("killed", 137, []),
        ("exits", 5, []),
        ("restart", 1, ["Ray has died"]),
        ("stuck", 142, ["Ray did not start in time"]),
    ],
)
def test_a_child_that_dies_is_started_again_as_often_as_is_allowed_then_the_command_says_how_to_go_on(
    case: str, code: int, why: list[str]
) -> None:
    with command(case) as process:
        end = again(code, "giving up; go on with: the same command")
        said = [*[*why, again(code, "starting it again")] * RESTARTS, *why, end]
        assert ended(process) == (1, ["work False"] * (RESTARTS + 1), said)


def test_a_later_child_knows_whether_an_earlier_one_had_prepared_everything() -> None:
    with command("prepared, then fine") as process:
        assert ended(process) == (0, ["work False", "work True"], [again(137, "starting it again")])
    with command("prepared") as process:
        assert ended(process)[1] == ["work False", "work True", "work True"]


def test_a_child_exits_when_its_parent_is_killed() -> None:
    with command("waits") as process:
        child = child_of(process)
        process.kill()
        assert psutil.wait_procs([child], timeout=60)[1] == []
        assert ended(process) == (-signal.SIGKILL, [], [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_signal_stops_the_child_and_gives_the_exit_code(number: int, send: Callable[[int, int], None]) -> None:
    with command("waits") as process:
        child_of(process)
        send(process.pid, number)
        assert ended(process) == (128 + number, [], ["interrupted"])


def test_a_signal_to_the_process_group_is_heard_once_and_a_later_one_again() -> None:
    with command("counts") as process:
        child_of(process)
        assert process.stdout
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "heard 1\n"
        while not select.select([process.stdout], [], [], 0.1)[0]:  # those of the first second count as the same one
            os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "heard 2\n"
        assert ended(process) == (4, [], [])


def test_a_child_that_dies_when_it_is_to_stop_is_not_started_again() -> None:
    with command("lost") as process:
        child_of(process)
        process.terminate()
        assert ended(process) == (143, [], [again(1, "stopping")])


def test_the_exit_code_of_a_child_that_could_not_keep_its_results_is_its_own() -> None:
    with command("loses") as process:
        child_of(process)
        process.terminate()
        assert ended(process) == (1, [], [])


@pytest.mark.parametrize("who", [["parent"], ["child"], ["parent", "child"]])
def test_a_command_that_was_stopped_goes_on_when_it_is_continued(who: list[str]) -> None:
    with command("waits") as process:
        child = child_of(process)
        met = [{"parent": psutil.Process(process.pid), "child": child}[name] for name in who]
        for each in met:
            each.suspend()
        wait_until(lambda: all(each.status() == psutil.STATUS_STOPPED for each in met))
        for each in met:
            each.resume()
        wait_until(lambda: all(each.status() != psutil.STATUS_STOPPED for each in met))
        assert process.poll() is None
        assert child.is_running()
        process.terminate()
        assert ended(process) == (143, [], ["interrupted"])


def test_a_hang_up_is_ignored_where_it_was_ignored_before_as_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND.replace("RESTARTS", "0"), "waits"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            process_group=0,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    with process:
        child = child_of(process)
        os.killpg(process.pid, signal.SIGHUP)
        process.terminate()
        assert ended(process) == (143, [], ["interrupted"])
        assert not child.is_running()
