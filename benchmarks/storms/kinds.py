"""Strikes: what may befall a study. Every kind is a small function, and a line of the table at the end."""

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from fedbench.base.environment import variables
from storms.command import Study, environment

STOP_SECONDS = 5.0
HELD_SECONDS = 5.0  # a disk is full, or a folder read-only, for so long
DISK = "64m"
HOUR = 3600

Strike = Callable[[Study, random.Random], bool]  # whether there was somebody, or something, to be struck
Victim = Callable[[Study], list[psutil.Process]]


def workers(study: Study) -> list[psutil.Process]:
    """Workers that run trials, or will."""
    return study.others("ray::FederatedRun") or study.others("ray::IDLE")


VICTIMS: dict[str, Victim] = {
    "worker": workers,
    "Home": lambda study: study.others("ray::Home"),
    "parent": lambda study: [study.parent],
    "child": lambda study: study.child,
    "raylet": lambda study: study.others("raylet/raylet"),
    "control store": lambda study: study.others("gcs_server"),
}


def signalled(number: int, who: str, study: Study, rng: random.Random) -> bool:
    """Send a signal to one process of a kind."""
    with suppress(psutil.Error, IndexError):
        rng.choice(VICTIMS[who](study)).send_signal(number)
        return True
    return False


def killed(who: str) -> Strike:
    """A strike that kills one process of a kind."""
    return lambda study, rng: signalled(signal.SIGKILL, who, study, rng)


def stopped(study: Study, rng: random.Random) -> bool:
    """SIGSTOP for one process of any kind, and SIGCONT five seconds later."""
    with suppress(psutil.Error):
        there = [process for victim in VICTIMS.values() for process in victim(study)]
        victim = rng.choice(there)
        victim.suspend()
        study.watch(STOP_SECONDS)
        victim.resume()
        return True
    return False


def filled(study: Study, rng: random.Random) -> bool:
    """The disk is full for some seconds."""
    ballast = study.out / "ballast"
    with suppress(OSError), ballast.open("wb") as stream:
        while True:
            stream.write(bytes(2**16))
            stream.flush()
    study.watch(HELD_SECONDS)
    ballast.unlink()
    return True


def read_only(study: Study, rng: random.Random) -> bool:
    """Nothing can be made, renamed or removed in any folder of OUT for some seconds, not even by root."""
    folders = [str(study.out), *(str(path) for path in study.out.rglob("*") if path.is_dir())]
    subprocess.run(["chattr", "-f", "+i", *folders])
    study.watch(HELD_SECONDS)
    subprocess.run(["chattr", "-f", "-i", *folders])
    return True


def wrong_clock(study: Study, rng: random.Random) -> bool:
    """The clock of one Python process is an hour off from now on."""
    there = [process for who in ("child", "Home", "worker") for process in VICTIMS[who](study)]
    if not there:
        return False
    (study.clocks / str(rng.choice(there).pid)).write_text(str(rng.choice([-HOUR, HOUR])))
    return True


def flipped(study: Study, rng: random.Random) -> bool:
    """One bit of one file of an entry of the store is another."""
    with suppress(OSError, IndexError):
        file = rng.choice(sorted(path for path in rng.choice(study.stored()).iterdir() if path.stat().st_size))
        content = bytearray(file.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        with file.open("r+b") as stream:  # in place, as a disk would
            stream.write(content)
        return True
    return False


def truncated(study: Study, rng: random.Random) -> bool:
    """The command is asked to stop, and a checkpoint that it leaves loses its end."""
    if not study.others("FederatedRun") or "round" not in study.said.rpartition("starting workers")[2]:
        return False
    study.parent.send_signal(signal.SIGTERM)
    while study.look() is None:
        study.watch(0.2)
    checkpoints = sorted(study.out.glob("checkpoints/*/round-*.ckpt"))
    if not checkpoints:
        return False
    with rng.choice(checkpoints).open("r+b") as stream:
        stream.truncate(rng.randrange(stream.seek(0, os.SEEK_END)))
    return True


@dataclass(frozen=True)
class Place:
    """Where a study runs: what strikes there, and with which options."""

    strike: Strike
    options: list[str] = field(default_factory=list)


@contextmanager
def here(strike: Strike, out: Path) -> Iterator[Place]:
    """A study on this machine."""
    yield Place(strike)


@contextmanager
def small_disk(out: Path) -> Iterator[Place]:
    """OUT on a small file system of its own."""
    out.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(out)], check=True)
    try:
        yield Place(filled)
    finally:
        subprocess.run(["umount", "-l", str(out)], check=True)


class TwoNodes:
    """A cluster of two nodes on this machine, for the time of a study; the second one can be lost.

    scratch: the folder of the study.
    """

    def __init__(self, scratch: Path) -> None:
        from ray.cluster_utils import Cluster

        own = environment(scratch)
        self._environment = {**own, "RAY_TMPDIR": own["TMPDIR"]}  # for Ray's processes, which this one starts
        with variables(self._environment):
            self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
            self._second = self._cluster.add_node(num_cpus=1)

    @property
    def options(self) -> list[str]:
        """For a command that is to use it."""
        return ["--address", self._cluster.address]

    def strike(self, study: Study, rng: random.Random) -> bool:
        """The second node is gone at once, and another one joins."""
        self._cluster.remove_node(self._second, allow_graceful=False)
        with variables(self._environment):
            self._second = self._cluster.add_node(num_cpus=1)
        return True

    def close(self) -> None:
        """Stop it."""
        self._cluster.shutdown()


@contextmanager
def two_nodes(out: Path) -> Iterator[Place]:
    """A study on a cluster of two nodes."""
    cluster = TwoNodes(out.parent)
    try:
        yield Place(cluster.strike, cluster.options)
    finally:
        cluster.close()


def can_mount() -> str:
    """Why small file systems cannot be mounted here, empty if they can."""
    return "" if os.geteuid() == 0 and shutil.which("mount") else "needs the right to mount a file system"


def can_freeze() -> str:
    """Why folders cannot be made read-only here, empty if they can."""
    return "" if os.geteuid() == 0 and shutil.which("chattr") else "needs root and chattr"


@dataclass(frozen=True)
class Kind:
    """A kind of strike.

    place: what it needs around a study; missing: why it cannot be had here; late: whether it may strike what a command
    has left behind, so that only the next one can mend it; codes: exit codes of a command that it may end, besides 1.
    """

    place: Callable[[Path], AbstractContextManager[Place]]
    missing: Callable[[], str] = str
    late: bool = False
    codes: tuple[int, ...] = ()


KINDS: dict[str, Kind] = {
    "kill worker": Kind(partial(here, killed("worker"))),
    "kill Home": Kind(partial(here, killed("Home"))),
    "kill parent": Kind(partial(here, killed("parent")), codes=(-signal.SIGKILL,)),
    "kill child": Kind(partial(here, killed("child"))),
    "kill raylet": Kind(partial(here, killed("raylet"))),
    "kill control store": Kind(partial(here, killed("control store"))),
    "lose node": Kind(two_nodes),
    "stop": Kind(partial(here, stopped)),
    "full disk": Kind(small_disk, missing=can_mount),
    # 2: the command was started while nothing can be written, which it says in one line.
    "read-only": Kind(partial(here, read_only), missing=can_freeze, codes=(2,)),
    "clock": Kind(partial(here, wrong_clock)),
    "flipped bit": Kind(partial(here, flipped), late=True),
    "truncated checkpoint": Kind(partial(here, truncated), codes=(128 + signal.SIGTERM,)),
}
