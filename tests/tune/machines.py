"""Machines for tests: network namespaces on a bridge that leads nowhere, each with file systems of its own."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

PORT = 6379
Process = subprocess.Popen[str]


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, check=True, capture_output=True, text=True)


class Machines:
    """The first has the test's own files; the others see nothing of `folder`, and have none of `hidden`."""

    def __init__(self, folder: Path, hidden: Sequence[Path] = ()) -> None:
        self.folder, self.hidden = folder, [path for path in hidden if path.is_dir()]
        self.name = f"fedbench-{os.getpid()}"
        self._started: list[Process] = []
        self._spaces: list[str] = []
        try:
            self._space("hub")
            run("ip", "-n", f"{self.name}-hub", "link", "add", "bridge", "type", "bridge")
            run("ip", "-n", f"{self.name}-hub", "link", "set", "bridge", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            self.close()
            pytest.skip(f"needs the right to make network namespaces ({error})")

    def _space(self, name: str) -> str:
        space = f"{self.name}-{name}"
        run("ip", "netns", "add", space)
        self._spaces.append(space)
        run("ip", "-n", space, "link", "set", "lo", "up")
        return space

    def add(self, number: int) -> None:
        """One more machine on the bridge."""
        space, hub = self._space(str(number)), f"{self.name}-hub"
        run("ip", "link", "add", f"to{number}", "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "-n", hub, "link", "set", f"to{number}", "master", "bridge", "up")
        run("ip", "-n", space, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        run("ip", "-n", space, "link", "set", "eth0", "up")

    def address(self, number: int) -> str:
        return f"10.77.0.{number}"

    def start(
        self, number: int, *words: str, environment: Mapping[str, str], alone: bool, output: int = subprocess.PIPE
    ) -> Process:
        """Run a command on a machine; `alone`, with empty file systems in place of the folders that are hidden."""
        command = ["ip", "netns", "exec", f"{self.name}-{number}"]
        if alone:
            mounts = [f"mount -t tmpfs tmpfs {path}" for path in (self.folder, *self.hidden)]
            script = " && ".join([*mounts, f"cd {self.folder}", 'exec "$@"'])
            command += ["unshare", "--mount", "bash", "-c", script, "bash"]
        process = subprocess.Popen(
            [*command, *words],
            env={**os.environ, **environment},
            cwd=self.folder,
            stdout=output,
            stderr=output,
            text=True,
        )
        self._started.append(process)
        return process

    def ray(self, number: int, *, cpus: int, environment: Mapping[str, str], head: bool = False) -> None:
        """Start a node of Ray on a new machine; the first is the head."""
        self.add(number)
        where = ["--head", f"--port={PORT}", f"--temp-dir={self.folder}/ray", "--include-dashboard=false"]
        where = where if head else [f"--address={self.address(1)}:{PORT}"]
        ray = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            *where,
            f"--node-ip-address={self.address(number)}",
        ]
        ray += [f"--num-cpus={cpus}", "--object-store-memory=200000000", "--disable-usage-stats", "--block"]
        self.start(number, *ray, environment=environment, alone=not head, output=subprocess.DEVNULL)

    def has(self, number: int) -> bool:
        """Whether there is a machine of this number."""
        return f"{self.name}-{number}" in self._spaces

    def joined(self, number: int) -> bool:
        """Whether a machine's node is up."""
        return bool(self._raylets(number))

    def listed(self, number: int, folder: str) -> list[str]:
        """What is in a folder, as a machine sees it."""
        return os.listdir(f"/proc/{self._raylets(number)[0]}/root{self.folder}/{folder}")

    def _raylets(self, number: int) -> list[int]:
        comms = {pid: Path(f"/proc/{pid}/comm") for pid in self._pids(number)}
        return [pid for pid, comm in comms.items() if comm.exists() and comm.read_text().strip() == "raylet"]

    def _pids(self, number: int | str) -> list[int]:
        return [int(pid) for pid in run("ip", "netns", "pids", f"{self.name}-{number}").stdout.split()]

    def kill(self, number: int | str) -> None:
        """A machine is gone at once."""
        for pid in self._pids(number):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End every process, then every namespace."""
        for space in self._spaces:
            self.kill(space.rpartition("-")[2])
        for process in self._started:
            process.kill()
            process.communicate()
        for space in self._spaces:
            subprocess.run(["ip", "netns", "delete", space], check=False)


def reason_to_skip() -> str:
    """Why there can be no machines here; empty if there can."""
    if os.geteuid() != 0:
        return "needs root, to make namespaces"
    missing = [name for name in ("ip", "unshare") if shutil.which(name) is None]
    return f"needs {missing[0]}" if missing else ""
