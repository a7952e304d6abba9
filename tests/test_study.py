"""Studies on a real Ray: from one command to a table, through kills, crashes and lost nodes."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from fedbench.report import main as report_main
from fedbench.results.tables import TIME_COLUMNS
from fedbench.study import main
from tests.conftest import heed_interrupts

Command = Callable[..., tuple[int, str, str]]

STUDY = """
title: Mine
shows: Something.
base: {data.train_size: 600, data.test_size: 300, clients.count: 5, rounds: %d, method.name: fixed_gamma}
grid:
  data.alpha: [100, 1]
  method.gamma: [1.0, 0.9]
seeds: [8, 9]
baseline: {method.gamma: 1.0}
tables:
  accuracy: {rows: [data.alpha], columns: [method.gamma], best: row}
plots:
  curves: {colour: method.gamma, panels: [data.alpha]}
scales:
  quick: {}
"""


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    """One small Ray cluster in this process for all tests that need nothing special."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def study_file(folder: Path, rounds: int = 3) -> str:
    path = folder / "mine.yaml"
    path.write_text(STUDY % rounds)
    return str(path)


def results(out: Path, scale: str = "quick") -> tuple[str, str]:
    """table.csv, and cells.csv without its time columns."""
    folder = out / "studies" / "mine" / scale
    cells = pd.read_csv(folder / "cells.csv").drop(columns=list(TIME_COLUMNS))
    return (folder / "table.csv").read_text(), cells.to_csv()


@pytest.mark.usefixtures("two_cpus")
def test_a_study_ends_with_its_tables_and_is_not_run_twice(command: Command, tmp_path: Path) -> None:
    file, out = study_file(tmp_path), tmp_path / "out"
    code, text, error = command(main, file, "--out", str(out))
    assert (code, error) == (0, "")
    assert "8 trials, 0 of them done" in text
    folder = out / "studies" / "mine" / "quick"
    assert {path.name for path in folder.iterdir()} == {
        *("table.csv", "table.md", "table.tex", "cells.csv", "rounds.csv.gz", "curves.png", "curves.svg")
    }
    table, cells = pd.read_csv(folder / "table.csv"), pd.read_csv(folder / "cells.csv")
    assert table.shape == (2, 3)
    assert table.notna().all().all()
    assert (cells["n"] == 2).all()
    assert cells.loc[cells["method.gamma"] == 1.0, "difference"].eq(0).all()
    assert len(pd.read_csv(folder / "rounds.csv.gz")) == 8 * 3
    before = results(out)
    code, text, _ = command(main, file, "--out", str(out))
    assert code == 0
    assert "8 trials, 8 of them done" in text
    assert results(out) == before
    code, text, _ = command(report_main, file, "--out", str(out))
    assert code == 0
    assert results(out) == before


@pytest.mark.usefixtures("two_cpus")
def test_growing_a_study_runs_only_what_is_new(command: Command, tmp_path: Path) -> None:
    file, out = study_file(tmp_path), tmp_path / "out"
    command(main, file, "--out", str(out), "--only", "data.alpha=100", "--seeds", "8")
    stamps = {path: path.stat().st_mtime_ns for path in (out / "trials").iterdir()}
    assert len(stamps) == 2
    code, text, _ = command(main, file, "--out", str(out))
    assert code == 0
    assert "8 trials, 2 of them done" in text
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


@pytest.mark.usefixtures("two_cpus")
def test_a_crash_and_a_divergence_are_rows_with_reasons(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashing_plugin.py").write_text(
        "from typing import Literal\n"
        "from fedbench.methods import Method, MethodSettings, register_method\n"
        "class S(MethodSettings):\n    name: Literal['crashing'] = 'crashing'\n"
        "@register_method(version='1')\n"
        "class Crashing(Method[S]):\n"
        "    Settings = S\n"
        "    def aggregate(self, cohort, state, server):\n        raise ArithmeticError('out of luck')\n"
    )
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: Mine\nshows: x\nbase: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 2}\n"
        "grid:\n  method:\n    good: {}\n    crash: {method.name: crashing}\n    blowup: {clients.lr: 1e30}\n"
        "seeds: [8]\ntables: {accuracy: {rows: [], columns: [method], best: row}}\nscales: {quick: {}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = [str(file), "--out", str(tmp_path / "out"), "--import", "crashing_plugin"]
    code, text, _ = command(main, *arguments)
    assert code == 0
    assert "ArithmeticError: out of luck" in text
    assert "non-finite" in text
    cells = pd.read_csv(tmp_path / "out" / "studies" / "mine" / "quick" / "cells.csv").set_index("method")
    assert cells["failed"].to_dict() == {"good": 0, "crash": 1, "blowup": 0}
    assert cells["diverged"].to_dict() == {"good": 0, "crash": 0, "blowup": 1}
    code, text, _ = command(main, *arguments, "--strict")
    assert code == 1
    assert "3 trials, 2 of them done" in text


@pytest.mark.usefixtures("two_cpus")
def test_the_cached_data_are_unchanged_by_a_study_with_corrupted_clients(
    command: Command, tmp_path: Path, own_cache: Path
) -> None:
    def sums() -> dict[str, str]:
        files = sorted((own_cache / "arrays").glob("mnist5k-*/*.npy"))
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    command(main, study_file(tmp_path), "--out", str(tmp_path / "a"), "--seeds", "8", "--only", "data.alpha=1")
    before = sums()
    arguments = ["--set", "clients.corrupted=1", "--seeds", "8", "--out", str(tmp_path / "b")]
    code, _, _ = command(main, study_file(tmp_path), *arguments)
    assert code == 0
    assert sums() == before != {}


def start(file: str, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fedbench.study", file, "--out", str(out)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


def stored(out: Path) -> int:
    return len(list((out / "trials").glob("[0-9a-f]*"))) if (out / "trials").is_dir() else 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The results of a study that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    process = start(study_file(folder, 25), folder / "out")
    process.communicate(timeout=280)
    assert process.returncode == 0
    return results(folder / "out")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "driver", "ctrl-c"])
def test_a_disturbed_study_ends_with_the_same_tables(victim: str, tmp_path: Path, undisturbed: tuple[str, str]) -> None:
    file, out = study_file(tmp_path, 25), tmp_path / "out"
    process = start(file, out)
    wait_until(lambda: stored(out) >= 1)
    if victim == "worker":
        children = psutil.Process(process.pid).children(recursive=True)
        (worker, *_) = (
            child for child in children if "run_trial" in " ".join(child.cmdline()) or "ImplicitFunc" in child.name()
        )
        worker.kill()
        process.communicate(timeout=200)
        assert process.returncode == 0
    else:
        process.send_signal(signal.SIGKILL if victim == "driver" else signal.SIGINT)
        _, error = process.communicate(timeout=60)
        if victim == "ctrl-c":
            assert process.returncode == 130
            assert "go on with: python -m fedbench.study" in error
        kept = {path: path.stat().st_mtime_ns for path in (out / "trials").glob("[0-9a-f]*")}
        again = start(file, out)
        again.communicate(timeout=200)
        assert again.returncode == 0
        assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
    assert results(out) == undisturbed


@pytest.mark.slow
def test_a_lost_node_does_not_change_the_tables(command: Command, tmp_path: Path, undisturbed: tuple[str, str]) -> None:
    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    out = tmp_path / "out"
    try:
        address = cluster.address
        arguments = [sys.executable, "-m", "fedbench.study", study_file(tmp_path, 25), "--out", str(out)]
        process = subprocess.Popen(
            [*arguments, "--address", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: stored(out) >= 1)
        cluster.remove_node(second, allow_graceful=False)
        _, error = process.communicate(timeout=250)
        assert process.returncode == 0, error
    finally:
        cluster.shutdown()
    assert results(out) == undisturbed


@pytest.mark.slow
def test_a_full_disk_stops_the_study_and_loses_nothing(tmp_path: Path) -> None:
    file, out = study_file(tmp_path), tmp_path / "out"
    (out / "trials").mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(out / "trials")]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        process = start(file, out)
        text, error = process.communicate(timeout=250)
        kept = stored(out)
        assert process.returncode == 1
        assert "No space left on device" in text
        assert 1 <= kept < 8
        assert "Traceback" not in text + error
        assert "go on with: python -m fedbench.study" in error
        subprocess.run(["mount", "-o", "remount,size=64m", str(out / "trials")], check=True)
        again = start(file, out)
        text, _ = again.communicate(timeout=250)
        assert again.returncode == 0
        assert f"8 trials, {kept} of them done" in text
    finally:
        subprocess.run(["umount", str(out / "trials")], check=True)


WRONG: list[tuple[list[str], str]] = [
    (["smok"], "did you mean 'smoke'?"),
    ([], "name a study"),
    (["smoke", "--set", "rounds=0"], "rounds = 0: must be a whole number at least 1"),
    (["smoke", "--only", "data.alpha"], "expected key=value"),
    (["smoke", "--seeds", "x"], "expected whole numbers"),
    (["smoke", "--cpus-per-trial", "0"], "--cpus-per-trial 0.0: must be at least 0.01"),
    (["smoke", "--max-concurrent", "0"], "--max-concurrent 0: must be at least 1"),
    (["smoke", "--scale", "huge"], "invalid choice"),
]
WRONG_DATA: list[tuple[list[str], str]] = [
    (["smoke", "--set", "data.name=cifar10", "--data-dir", "/nowhere"], "data set 'cifar10' is not in /nowhere"),
    (["smoke", "--set", "clients.count=300", "--only", "data.alpha=1"], "some client without data"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_DATA)
def test_data_that_cannot_be_had_are_found_before_ray_starts(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(ray, "init", None)
    code, _, error = command(main, *arguments, "--out", str(tmp_path))
    assert code == 2
    assert message in error
    assert not list((tmp_path / "trials").iterdir())


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_input_is_found_before_ray_starts(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(ray, "init", None)
    out = tmp_path / "out"
    code, _, error = command(main, *arguments, "--out", str(out))
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not out.exists()


def test_an_out_folder_that_cannot_be_written_is_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, error = command(main, "smoke", "--out", str(tmp_path / "file" / "out"))
    assert code == 2
    assert "cannot be written" in error


def test_the_list_and_the_dry_run_start_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "init", None)
    out = tmp_path / "out"
    code, text, _ = command(main, "--list", "--json", "--out", str(out))
    listed: list[dict[str, Any]] = json.loads(text)
    assert code == 0
    assert {row["name"]: row["quick"]["trials"] for row in listed}["fixed_gamma"] == 36
    code, text, _ = command(main, "smoke", "--dry-run", "--out", str(out))
    assert code == 0
    assert "8 trials to run" in text
    assert all(word in text for word in ("time: about", "memory: about", "disk: about", "1 probed"))
    assert not out.exists()
