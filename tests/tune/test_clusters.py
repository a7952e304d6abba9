"""What cannot work is said within seconds, before anything is started."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import ray

from fedbench import UserError
from fedbench.tune import cluster
from fedbench.tune.cluster import private_token, shown_token
from fedbench.tune.nodes import check_fit
from fedbench.tune.options import RunOptions
from tests.commands import search as search_main
from tests.commands import study as main

Command = Callable[..., tuple[int, str, str]]


@contextmanager
def mute() -> Iterator[int]:
    """A port that accepts and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(5)
        yield server.getsockname()[1]


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@contextmanager
def web() -> Iterator[int]:
    """A port where a web server listens."""
    server = HTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()


def refused(command: Command, tmp_path: Path, *arguments: str) -> str:
    """The one line that a study with these options ends with, before anything is written but the folder."""
    started = time.monotonic()
    code, _, error = command(main, "smoke", "--out", str(tmp_path / "out"), *arguments)
    assert code == 2
    assert time.monotonic() - started < 60  # seconds on a free machine; Ray itself would go on for minutes
    assert len(error.strip().splitlines()) == 1
    assert not ray.is_initialized()
    return error


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("localhost:1", "no Ray cluster there (Connection refused)"),
        ("127.0.0.1:99999", "expected HOST:PORT"),
        ("127.0.0.1", "expected HOST:PORT"),
        ("nonsense", "expected HOST:PORT"),
        ("no-such-host.invalid:6379", "no Ray cluster there"),
    ],
)
def test_an_address_without_a_cluster_is_one_line_within_seconds(
    command: Command, tmp_path: Path, address: str, message: str
) -> None:
    assert message in refused(command, tmp_path, "--address", address)


def test_an_address_where_something_else_listens_is_one_line_within_seconds(command: Command, tmp_path: Path) -> None:
    with mute() as port:
        assert "no Ray cluster there (something else listens)" in refused(
            command, tmp_path, "--address", f"127.0.0.1:{port}"
        )
    with web() as port:
        assert "no Ray cluster there (something else listens)" in refused(
            command, tmp_path, "--address", f"localhost:{port}"
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cpus-per-trial", "640"], "--cpus-per-trial 640: this machine has"),
        (["--gpus-per-trial", "99"], "--gpus-per-trial 99: this machine has"),
        (["--autoscaling"], "--autoscaling: goes with --address"),
        (["--ship"], "--ship: goes with --address"),
        (["--checkpoints", "nowhere://bucket"], "--checkpoints nowhere://bucket: cannot be used (Protocol not known"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_what_this_machine_cannot_hold_is_refused_even_when_dry(
    command: Command, tmp_path: Path, arguments: list[str], message: str, more: list[str]
) -> None:
    assert message in refused(command, tmp_path, *arguments, *more)
    code, _, error = command(search_main, "fixed_gamma", "--out", str(tmp_path / "out"), "--dry-run", *arguments)
    assert (code, message in error) == (2, True)


@pytest.mark.usefixtures("two_cpus")
def test_what_no_node_of_a_cluster_can_hold_is_refused_or_waited_for_in_words() -> None:
    address = ray.get_runtime_context().gcs_address
    cluster.check_address(address)  # a real one is let through
    options = RunOptions(Path("out"), cpus_per_trial=3)
    said: list[str] = []
    with pytest.raises(UserError, match="--cpus-per-trial 3: the cluster's largest node has 2"):
        check_fit(options, said.append)
    check_fit(RunOptions(Path("out"), cpus_per_trial=3, autoscaling=True), said.append)
    fast = RunOptions(Path("out"), resources={"fast": 0.5}, autoscaling=True)
    check_fit(fast, said.append)
    assert said == [
        "waiting for the cluster to grow (--cpus-per-trial 3: the cluster's largest node has 2)",
        "waiting for the cluster to grow (--resources fast=0.5: the cluster's largest node has 0)",
    ]


@pytest.mark.usefixtures("two_cpus")
def test_a_cluster_that_wants_another_token_is_said_to(tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    other = tmp_path / "token"
    other.write_text("0" * 64)
    other.chmod(0o600)
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(other)}
    arguments = [sys.executable, "-m", "fedbench.study", "smoke", "--out", str(tmp_path / "out"), "--address", address]
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=100)
    assert result.returncode == 2
    assert "the cluster wants another token; name its file with RAY_AUTH_TOKEN_PATH" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


OPEN = """
import os, sys
from pathlib import Path
import ray  # which reads RAY_AUTH_MODE at once
from fedbench.tune.cluster import cluster
from fedbench.tune.options import RunOptions
with cluster(RunOptions(Path("out"), max_concurrent=1), say=lambda text: None):
    print(ray.get_runtime_context().gcs_address, os.environ["RAY_AUTH_MODE"], flush=True)
    sys.stdin.read()
"""
STRANGER = """
import sys
import ray
ray.init(address=sys.argv[1], logging_level=50, log_to_driver=False)
print(ray.get(ray.remote(num_cpus=0)(lambda: "code was run").remote()))
"""


def test_a_ray_that_is_started_here_asks_for_the_token_whatever_the_environment_says(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled"}
    environment.pop("RAY_AUTH_TOKEN_PATH", None)
    environment.pop("RAY_AUTH_TOKEN", None)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", OPEN], env=environment, text=True, **pipes) as host:  # type: ignore[call-overload]
        address, mode = host.stdout.readline().split()
        words = [sys.executable, "-c", STRANGER, address]
        try:
            stranger = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100)
            token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / ".ray" / "auth_token")}
            owner = subprocess.run(words, env={**environment, **token}, capture_output=True, text=True, timeout=100)
        finally:
            host.stdin.close()
            host.wait(60)
    assert "code was run" not in stranger.stdout and stranger.returncode != 0
    assert owner.stdout == "code was run\n", owner.stderr
    assert mode == "token"
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600


def test_of_many_first_runs_at_a_time_one_makes_the_token(tmp_path: Path) -> None:
    script = "from fedbench.tune.cluster import private_token; print(private_token().read_text())"
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("RAY_AUTH_TOKEN_PATH", None)
    runs = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    tokens = {run.communicate()[0].strip() for run in runs}
    assert len(tokens) == 1
    assert len(tokens.pop()) == 64
    (token,) = (tmp_path / ".ray").iterdir()
    assert (token.name, token.stat().st_mode & 0o777) == ("auth_token", 0o600)


def test_a_token_that_everybody_could_read_is_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("0" * 64)
    token.chmod(0o644)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    assert private_token() == token
    assert (token.stat().st_mode & 0o777, token.read_text()) == (0o600, "0" * 64)


def test_the_token_is_shown_on_a_terminal_and_kept_out_of_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("0" * 64 + "\n")
    assert shown_token(token) == f"what {token} holds"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert shown_token(token) == "0" * 64
