"""What people see who watch a study: Ray's dashboard, its workers' logs, Prometheus, TensorBoard, the terminal."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedbench.base.settings import load_yaml
from fedbench.tune.watch import TAGS, gauge_names
from tests.conftest import heed_interrupts
from tests.helpers import paced
from tests.trackers.test_trackers import scalars
from tests.tune.machines import reason_to_skip, run

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
DOCS = Path(__file__).parent.parent.parent / "docs"
LONG = 50_000  # rounds of the two trials that run until somebody stops them
STUDY = f"""
title: Watched
shows: Something.
base: {{data.train_size: 100, data.test_size: 200, clients.count: 2, method.name: fixed_gamma}}
grid:
  rounds: [3, {LONG}]
  method.gamma: [0.95, 0.9]
seeds: [8]
tables:
  accuracy: {{rows: [rounds], columns: [method.gamma]}}
scales:
  quick: {{}}
"""

AGENT_PORT = 52365  # of the agent that reads a node's logs; `ray.init` has no option for it
FETCH = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]})
sys.stdout.buffer.write(urllib.request.urlopen(request, timeout=20).read())
"""


@dataclass(frozen=True)
class Watch:
    """A study that runs, and where it can be watched.

    home: Ray's folder for temporary files, in place of /tmp; network: the words before a command in its network.
    """

    out: Path
    home: Path
    network: list[str]
    process: "subprocess.Popen[bytes]"

    def terminal(self, stream: str = "stdout") -> str:
        """What the user has seen so far."""
        return (self.out / stream).read_text()

    def get(self, path: str) -> str:
        """An answer of the dashboard."""
        found = re.search(r"dashboard: (\S+)\nit asks .* what (\S+) holds", self.terminal())
        assert found
        return self.fetch(found[1] + path, Path(found[2]).read_text())

    def fetch(self, url: str, token: str = "") -> str:
        """What is at an address."""
        words = [*self.network, sys.executable, "-c", FETCH, url, token]
        answer = subprocess.run(words, capture_output=True, text=True)
        if answer.returncode:
            raise OSError(answer.stderr)
        return answer.stdout

    def actors(self) -> list[dict[str, Any]]:
        """What the dashboard lists of actors."""
        return list(json.loads(self.get("/api/v0/actors?detail=1"))["data"]["result"]["result"])

    def workers(self) -> list[dict[str, Any]]:
        """Those of them that run trials."""
        return [actor for actor in self.actors() if actor["class_name"] == "FederatedRun"]

    def logs(self) -> list[str]:
        """The logs that the dashboard shows of them, where it opens them."""
        return [self.get(f"/api/v0/logs/file?actor_id={actor['actor_id']}&suffix=err") for actor in self.workers()]


def eventually(condition: Callable[[], Any], seconds: float = 200) -> Any:
    """What it returns, once that is something."""
    deadline, problem = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except (OSError, LookupError, AssertionError) as error:  # not there yet
            problem = error
        time.sleep(0.3)
    raise AssertionError(f"it did not come to that ({type(problem).__name__}: {problem})") from problem


def free(port: int) -> bool:
    """Return True if nobody listens at a port; OSError otherwise."""
    socket.create_server(("", port)).close()
    return True


@contextmanager
def network() -> Iterator[list[str]]:
    """A network for one command; yield the words before it. Without the right to make one, wait for Ray's port."""
    if reason_to_skip():
        eventually(lambda: free(AGENT_PORT))
        yield []
        return
    name = f"fedbench-watch-{os.getpid()}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        run("ip", "-n", name, "address", "add", "10.78.0.1/24", "dev", "eth0")
        for link in ("lo", "eth0", "eth1"):
            run("ip", "-n", name, "link", "set", link, "up")
        run("ip", "-n", name, "route", "add", "default", "dev", "eth0")  # Ray finds its address by it
        yield ["ip", "netns", "exec", name]
    finally:
        run("ip", "netns", "delete", name)


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """One study on one cluster, with everything on; two short trials are done, two run on."""
    with network() as words:
        yield from watched(tmp_path_factory.mktemp("watch"), words)


def watched(out: Path, network: list[str]) -> Iterator[Watch]:
    """The study in a network."""
    home = Path(tempfile.mkdtemp(prefix="fb", dir="/tmp"))  # short: Ray's sockets are below it
    (out / "mine.yaml").write_text(paced(STUDY, out, 0.1))
    command = [sys.executable, "-m", "fedbench.study", str(out / "mine.yaml"), "--out", str(out / "results")]
    environment = {**os.environ, "RAY_TMPDIR": str(home), "RAY_metrics_report_interval_ms": "1000"}
    with (out / "stdout").open("wb") as stdout, (out / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [*network, *command, "--dashboard", "--track", "tensorboard", "--max-concurrent", "2"],
            stdout=stdout,
            stderr=stderr,
            env=environment,
            preexec_fn=heed_interrupts,
        )
    watch = Watch(out, home, network, process)
    try:
        eventually(lambda: sum(f"round 20/{LONG}" in log for log in watch.logs()) == 2)
        yield watch
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert "Traceback" not in watch.terminal("stderr")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def test_workers_are_called_after_what_they_are_their_study_and_their_process(watch: Watch) -> None:
    workers = watch.workers()  # two as a rule; on a busy machine Tune may start others where it could go on with these
    assert len(workers) >= 2
    assert {actor["repr_name"] for actor in workers} == {
        f"mine, worker {actor['pid']} on {socket.gethostname()}" for actor in workers
    }
    others = {actor["class_name"] for actor in watch.actors()} - {"FederatedRun"}
    assert others == {"Home"}, "which stores what they have run"


def test_the_job_names_the_study(watch: Watch) -> None:
    (job,) = json.loads(watch.get("/api/jobs/"))
    assert f"-m fedbench.study {watch.out}/mine.yaml" in job["entrypoint"]
    assert job["metadata"] == {
        "job_name": "mine (quick)",
        "study": "mine",
        "scale": "quick",
        "out": str((watch.out / "results").resolve()),
    }


def test_workers_log_the_start_the_rounds_and_the_end_of_every_trial(watch: Watch) -> None:
    log = "\n".join(watch.logs())
    for gamma in ("0.95", "0.9"):
        short, long = (rf"^[\d-]+ [\d:]+ rounds {rounds}, gamma {gamma}, seed 8: " for rounds in (3, LONG))
        assert len(re.findall(rf"{short}starts \(trial \w{{12}} of mine\)$", log, re.M)) == 1
        rounds = re.findall(rf"{short}round (\d)/3, accuracy \d+\.\d\d %$", log, re.M)
        assert rounds == ["1", "2", "3"]
        assert len(re.findall(rf"{short}done, last round \d+\.\d\d %$", log, re.M)) == 1
        assert len(re.findall(rf"{long}starts", log, re.M)) == 1
        assert len(re.findall(rf"{long}round \d+/{LONG}, accuracy", log, re.M)) >= 20
        assert not re.findall(rf"{long}done", log, re.M)


def test_nothing_of_the_workers_logs_gets_into_the_terminal(watch: Watch) -> None:
    assert watch.terminal("stderr") == ""
    announced, *lines = watch.terminal().splitlines()
    assert announced.startswith("Watched")
    known = r"(page|dashboard): .*|tried 1 kind of trial .*|it asks for an authentication token; .*|starting Ray|"
    known += r"starting workers|\d/4 done, \d running, \d waiting(, [\d:]+ left)?; .*"
    assert [line for line in lines if not re.fullmatch(known, line)] == []


def scrape(watch: Watch) -> dict[str, list[dict[str, str]]]:
    """The metrics that Prometheus keeps, which finds them as docs/prometheus.yml tells it: labels by name."""
    (job,) = load_yaml(DOCS / "prometheus.yml")["scrape_configs"]
    ((file,),) = (source["files"] for source in job["file_sd_configs"])
    groups = json.loads(Path(file.replace("/tmp", str(watch.home), 1)).read_text())
    pages = [watch.fetch(f"http://{target}/metrics") for target in groups[0]["targets"]]
    keep = next(rule["regex"] for rule in job["metric_relabel_configs"] if rule["action"] == "keep")
    kept: dict[str, list[dict[str, str]]] = {}
    for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", "\n".join(pages), re.M):
        if re.fullmatch(keep, name):
            kept.setdefault(name, []).append({**dict(re.findall(r'(\w+)="([^"]*)"', labels)), "value": value})
    return kept


def test_gauges_come_from_the_metrics_port_with_study_axes_and_seed(watch: Watch) -> None:
    def long_ones() -> dict[str, dict[str, float]]:
        """The value of every gauge by the gamma of the trial that it is of."""
        found = scrape(watch)
        running = [(name, row) for name, rows in found.items() for row in rows if f"rounds {LONG}" in row["axes"]]
        assert {(row["study"], row["seed"], len(row["trial"])) for _, row in running} == {("mine", "8", 12)}
        values: dict[str, dict[str, float]] = {}
        for name, row in running:
            values.setdefault(name.removeprefix("ray_fedbench_"), {})[row["axes"]] = float(row["value"])
        assert values.keys() == {name for name in gauge_names() if not name.startswith("validation_")}
        assert all(by_axes.keys() == axes for by_axes in values.values())
        return values

    axes = {f"rounds {LONG}, gamma 0.95", f"rounds {LONG}, gamma 0.9"}
    values = eventually(long_ones)
    assert set(values["rounds"].values()) == {LONG}  # set once, and there for as long as the trial runs
    assert values["gamma"] == {f"rounds {LONG}, gamma {gamma}": float(gamma) for gamma in ("0.95", "0.9")}
    assert all(0 < accuracy <= 1 for accuracy in values["test_accuracy"].values())
    eventually(lambda: all(long_ones()["round"][each] > values["round"][each] for each in axes))
    eventually(lambda: all("rounds 3," not in row["axes"] for row in scrape(watch)["ray_fedbench_round"]))


def test_the_grafana_board_uses_what_is_exported_and_nothing_else(watch: Watch) -> None:
    board = json.loads((DOCS / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [variable["query"]["query"] for variable in board["templating"]["list"]]
    legends = [target["legendFormat"] for panel in board["panels"] for target in panel["targets"]]
    exported = eventually(lambda: scrape(watch))
    for query in queries:
        names = re.findall(r"ray_\w+", query)
        assert names
        assert exported.keys() >= set(names), query
        labels = re.findall(r"(\w+)=~", query) + re.findall(r"label_values\(.*, (\w+)\)", query)
        assert labels
        assert set(TAGS) >= set(labels), query
    assert {label for legend in legends for label in re.findall(r"{{(\w+)}}", legend)} <= set(TAGS)
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert {name for query in queries for name in re.findall(r"\$(\w+)", query)} == variables


def test_tensorboard_has_a_run_for_every_trial_named_by_its_axes_with_rounds_as_steps(watch: Watch) -> None:
    folders = {re.sub(r", \w{12}$", "", path.name): path for path in (watch.out / "results/tensorboard/mine").iterdir()}
    assert folders.keys() == {
        f"rounds {rounds}, gamma {gamma}, seed 8" for rounds in (3, LONG) for gamma in ("0.95", "0.9")
    }
    found = scalars(folders["rounds 3, gamma 0.9, seed 8"])
    assert set(found) >= {"test_accuracy", "test_loss", "train_loss", "gamma", "r", "norm_w", "coherence_mean"}
    assert set(found["test_accuracy"]) == {1, 2, 3}
    assert not list((watch.out / "results" / "ray").rglob("events.out.tfevents*"))  # Tune's would count its reports
