"""MLflow with a local SQLite store and W&B offline, for real: a study on Ray, resuming, servers that are not there."""

import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fedbench import TrialConfig
from fedbench.cli.command import run
from fedbench.simulation import Simulation, drive
from fedbench.store.execute import execute
from fedbench.store.store import Store
from fedbench.trackers import CommandTrackers, tracked, trackers_of
from fedbench.trackers.guard import without_secrets
from tests.commands import study

Make = Callable[..., TrialConfig]

mlflow = pytest.importorskip("mlflow.tracking", reason="needs mlflow-skinny, of the extra test")
wandb = pytest.importorskip("wandb.proto.wandb_internal_pb2", reason="needs wandb, of the extra test")

KEY, TOKEN = "0123456789abcdef" * 2 + "01234567", "token-nobody-may-see"
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false"}
PLUGIN = """
from typing import Literal
from fedbench.methods import Method, MethodSettings, register_method

class Settings(MethodSettings):
    name: Literal['unlucky'] = 'unlucky'

@register_method(version='1')
class Unlucky(Method[Settings]):
    Settings = Settings
    def aggregate(self, cohort, state, server):
        raise ArithmeticError('out of luck')
"""
STUDY = """
title: Mine
shows: Something.
base: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 3}
grid:
  method:
    good: {}
    crash: {method.name: unlucky}
    blowup: {clients.lr: 1e30}
seeds: [8]
tables: {accuracy: {rows: [], columns: [method]}}
scales: {quick: {}}
"""


@dataclass
class Study:
    """What a command left behind: its folder, what it printed, its exit code."""

    folder: Path
    said: str
    code: int

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def client(self) -> Any:
        return mlflow.MlflowClient(tracking_uri=f"sqlite:///{self.folder / 'own.db'}")

    def runs(self) -> dict[str, Any]:
        """MLflow's runs by name."""
        client = self.client()
        experiment = client.get_experiment_by_name("fedbench/mine").experiment_id
        return {run.info.run_name: run for run in client.search_runs([experiment])}


def conducted(*arguments: str) -> tuple[int, str]:
    """Run the study command in this process: exit code, and all that was printed."""
    said = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.setattr("sys.argv", ["study", *arguments])
        with pytest.raises(SystemExit) as stopped:
            run(study)
    return int(stopped.value.code or 0), said.getvalue()


@pytest.fixture(scope="module", autouse=True)
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No settings, keys and caches of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("MLFLOW_", "WANDB_"))]:
            patch.delenv(name)
        home = tmp_path_factory.mktemp("home")
        for name, value in {**QUIET, "NETRC": str(home / "netrc")}.items():
            patch.setenv(name, value)
        for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT"):
            patch.setenv(f"WANDB_{name}_DIR", str(home))
        yield


@pytest.fixture(autouse=True)
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tracker is left alone because of an earlier test."""
    monkeypatch.setattr("fedbench.trackers.guard._resting", {})


@pytest.fixture(scope="module")
def tracked_study(tmp_path_factory: pytest.TempPathFactory, one_cpu: None, quiet: None) -> Study:
    """A study with a trial that is done, one that crashes and one that diverges; stores are named by relative paths.

    The variables are set after the cluster has started: workers have them from the command alone.
    """
    folder = tmp_path_factory.mktemp("tracked")
    (folder / "unlucky_plugin.py").write_text(PLUGIN)
    (folder / "mine.yaml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        values = {"MLFLOW_TRACKING_URI": "sqlite:///own.db", "MLFLOW_TRACKING_TOKEN": TOKEN}
        values |= {"WANDB_MODE": "offline", "WANDB_API_KEY": KEY, "WANDB_DIR": "own"}
        for name, value in values.items():
            patch.setenv(name, value)
        (folder / "own").mkdir()
        wanted = ["--no-try", "--import", "unlucky_plugin", "--track", "mlflow", "--track", "wandb"]
        code, said = conducted("mine.yaml", "--out", str(folder / "out"), *wanted)
    return Study(folder, said, code)


def offline(folder: Path) -> dict[str, list[Any]]:
    """All records of W&B's offline runs, by the run's id, once their ends are written: a process of its own does it."""
    until = time.monotonic() + 20
    while True:
        found = {
            path.stem.removeprefix("run-"): list(records(path.read_bytes())) for path in folder.rglob("run-*.wandb")
        }
        if all(of_kind(run, "exit") for run in found.values()) or time.monotonic() > until:
            return found
        time.sleep(0.05)


def records(blob: bytes) -> Iterator[Any]:
    """The records in one of W&B's files: seven bytes, then LevelDB's log format with blocks of 32 KiB."""
    at, part = 7, b""
    while at + 7 <= len(blob):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", blob[at + 4 : at + 7])
        part += blob[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield wandb.Record.FromString(part)
            part = b""


def of_kind(records: list[Any], kind: str) -> list[Any]:
    return [getattr(record, kind) for record in records if record.WhichOneof("record_type") == kind]


def values(items: Any) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def rounds_of(records: list[Any]) -> list[dict[str, Any]]:
    return [values(history.item) for history in of_kind(records, "history")]


def test_the_study_is_not_disturbed(tracked_study: Study) -> None:
    assert tracked_study.code == 0
    assert "warning" not in tracked_study.said
    assert "3 trials" in tracked_study.said


def test_mlflow_has_a_run_for_each_trial_and_failures_are_failures(tracked_study: Study) -> None:
    runs = tracked_study.runs()
    assert {name: run.info.status for name, run in runs.items()} == {
        "good, seed 8": "FINISHED",
        "crash, seed 8": "FAILED",
        "blowup, seed 8": "FAILED",
        "report, quick": "FINISHED",
    }
    reason = runs["crash, seed 8"].data.tags["fedbench.reason"]
    assert reason.startswith("ArithmeticError: out of luck (unlucky_plugin.py, line ")
    assert "non-finite" in runs["blowup, seed 8"].data.tags["fedbench.reason"]
    assert runs["blowup, seed 8"].data.tags["fedbench.status"] == "diverged"


def test_mlflow_has_flat_parameters_every_round_and_the_summary(tracked_study: Study) -> None:
    run = tracked_study.runs()["good, seed 8"]
    stored = Store(tracked_study.out).get(run.data.params["hash"])
    assert stored is not None
    assert (run.data.params["data.train_size"], run.data.params["method.name"]) == ("100", "fedavg")
    table = stored.table("rounds").set_index("round")
    for name in ("test_accuracy", "train_loss", "norm_w"):
        history = tracked_study.client().get_metric_history(run.info.run_id, name)
        assert [(point.step, point.value) for point in history] == list(table[name].items())
    assert run.data.metrics["summary/final_accuracy"] == stored.summary["final_accuracy"]
    assert run.data.metrics["summary/parameters"] == stored.summary["parameters"]


def test_the_report_is_an_artifact_of_both(tracked_study: Study) -> None:
    report = tracked_study.runs()["report, quick"]
    folder = Path(report.info.artifact_uri.removeprefix("file://")) / "report"
    made = tracked_study.out / "studies" / "mine" / "quick"
    page = made / "report.html"
    for path in [page] if page.exists() else made.glob("*.csv"):
        assert (folder / path.name).read_bytes() == path.read_bytes()
    (run,) = (found for name, found in offline(tracked_study.folder / "own").items() if "report" in name)
    (artifact,) = of_kind(run, "artifact")
    assert {entry.path for entry in artifact.manifest.contents} == {path.name for path in folder.iterdir()}


def test_wandb_has_a_run_for_each_trial_with_parameters_rounds_summary_and_exit_code(tracked_study: Study) -> None:
    runs = {of_kind(found, "run")[0].display_name: found for found in offline(tracked_study.folder / "own").values()}
    codes = {name: of_kind(found, "exit")[0].exit_code for name, found in runs.items()}
    assert codes == {"good, seed 8": 0, "crash, seed 8": 1, "blowup, seed 8": 1, "report, quick": 0}
    begun = of_kind(runs["good, seed 8"], "run")[0]
    assert (begun.project, begun.run_group, begun.job_type) == ("fedbench", "mine", "trial")
    config = values(begun.config.update)
    stored = Store(tracked_study.out).get(config["hash"])
    assert stored is not None
    assert (config["data.train_size"], config["method.name"]) == (100, "fedavg")
    table = stored.table("rounds").set_index("round")
    shown = rounds_of(runs["good, seed 8"])
    assert [(row["_step"], row["test_accuracy"]) for row in shown] == list(table["test_accuracy"].items())
    summary = {k: v for part in of_kind(runs["good, seed 8"], "summary") for k, v in values(part.update).items()}
    assert (summary["final_accuracy"], summary["status"]) == (stored.summary["final_accuracy"], "done")


def test_no_secret_is_printed_or_stored(tracked_study: Study) -> None:
    files = [path for path in tracked_study.folder.rglob("*") if path.is_file()]
    assert len(files) > 30
    for secret in (KEY, TOKEN):
        assert secret not in tracked_study.said
        assert not [path for path in files if secret.encode() in path.read_bytes()]
    kept = [path.read_bytes() for path in files if path.suffix == ".wandb"]
    assert not any(b"default_worker" in content for content in kept), "a command line, which may hold a password"


@pytest.fixture
def own_stores(tracked_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Trackers of this process: the database that is there, since making one takes seconds, and W&B in OUT."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tracked_study.folder / 'own.db'}")
    monkeypatch.setenv("WANDB_MODE", "offline")
    return tmp_path


def seen_rounds(study: Study, out: Path, config: TrialConfig) -> tuple[list[int], list[int], str, int]:
    """Steps in MLflow and in W&B, the one run's status there, and its exit code here."""
    client = study.client()
    experiment = client.get_experiment_by_name("fedbench").experiment_id
    (run,) = client.search_runs([experiment], filter_string=f"params.hash = '{config.hash}'")
    (found,) = offline(out).values()
    steps = [point.step for point in client.get_metric_history(run.info.run_id, "train_loss")]
    here = [row["_step"] for row in rounds_of(found)]
    return steps, here, run.info.status, of_kind(found, "exit")[0].exit_code


def test_a_resumed_run_is_one_run_and_its_rounds_stand_once(tracked_study: Study, own_stores: Path, tiny: Make) -> None:
    config = tiny(rounds=5, seed=11)
    simulation, said = Simulation(config), list[str]()
    with tracked(["mlflow", "wandb"], config, own_stores, said.append) as trackers:
        drive(simulation, trackers, stop=lambda: simulation.state.round == 3)
    assert seen_rounds(tracked_study, own_stores, config) == ([1, 2, 3], [1, 2, 3], "KILLED", 255)
    for again in (simulation, Simulation(config)):  # from a checkpoint; then one that was lost, so from the beginning
        with tracked(["mlflow", "wandb"], config, own_stores, said.append) as trackers:
            drive(again, trackers)
        steps = [1, 2, 3, 4, 5]
        assert seen_rounds(tracked_study, own_stores, config) == (steps, steps, "FINISHED", 0)
    assert said == []


def test_a_run_that_crashes_before_its_first_round_is_a_failure(
    tracked_study: Study, own_stores: Path, tiny: Make
) -> None:
    config, said = tiny(seed=12), list[str]()
    with pytest.raises(ArithmeticError), tracked(["mlflow", "wandb"], config, own_stores, said.append):
        raise ArithmeticError("out of luck")
    assert seen_rounds(tracked_study, own_stores, config) == ([], [], "FAILED", 1)
    assert said == []


@pytest.fixture(params=["closed", "mute"])
def nobody(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a port that is closed, or of one where somebody listens and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "mute":
            server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_is_not_there_is_one_warning_within_seconds(
    nobody: str, tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedbench.trackers.guard.REACH", 1.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:{TOKEN}@{nobody}")
    monkeypatch.setenv("WANDB_BASE_URL", f"http://{nobody}")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    said, started = list[str](), time.monotonic()
    for seed in (8, 9):  # the second one does not try again
        config, store = tiny(rounds=1, seed=seed), Store(tmp_path)
        trackers = trackers_of(["mlflow", "wandb"], config, tmp_path, said.append)
        assert execute(config, store, None, trackers).status == "done"
    assert time.monotonic() - started < 20
    assert [line.partition(":")[0] for line in said] == ["--track mlflow", "--track wandb"] * 2
    assert said[:2] == said[2:]
    assert all("no answer" in line and nobody in line for line in said)
    assert not any(TOKEN in line or KEY in line for line in said)


@pytest.mark.usefixtures("one_cpu")
def test_a_study_whose_servers_are_not_there_warns_once_for_each_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(STUDY.replace("    crash: {method.name: unlucky}\n", ""))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    wanted = ["--only", "method=good", "--track", "mlflow", "--track", "wandb"]
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # it answers, but there is no key for it
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
        code, said = conducted(str(tmp_path / "mine.yaml"), "--out", str(tmp_path / "out"), *wanted)
        server.shutdown()
    assert code == 0
    warned = [line for line in said.splitlines() if "warning" in line]
    assert [line.partition(" (")[0] for line in warned] == [
        "warning: --track mlflow: stopped tracking",
        "warning: --track wandb: stopped tracking",
    ]
    assert "no answer from http://127.0.0.1:9" in warned[0]
    assert "no API key" in warned[1]
    assert "1/1 done" in said


def test_without_an_address_mlflow_keeps_its_runs_in_the_results_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    trackers = CommandTrackers(["mlflow"], tmp_path)
    (tmp_path / "table.csv").write_text("a\n1\n")
    trackers.prepare(["mine"], said.append)
    trackers.report("mine", "quick", [tmp_path / "table.csv"], said.append)
    assert said == []
    assert (tmp_path / "mlflow" / "mlflow.db").is_file()
    assert [path.name for path in (tmp_path / "mlflow" / "artifacts").rglob("*.csv")] == ["table.csv"]


def test_a_warning_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", TOKEN)
    text = f"login {TOKEN} failed at https://me:pass%40word@host:5000/api"
    assert without_secrets(text) == "login *** failed at https://***@host:5000/api"
