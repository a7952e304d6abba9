"""Studies on a real Ray: from one command to a table; and what is refused before Ray starts."""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import ray

from fedbench.jobs.live import LivePages
from fedbench.jobs.options import request
from fedbench.jobs.study import StudyJob
from fedbench.store.execute import execute
from tests.commands import report as report_main
from tests.commands import study as main
from tests.helpers import results, study_file

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.usefixtures("two_cpus")
def test_a_study_grows_to_its_tables_and_runs_nothing_twice(command: Command, tmp_path: Path) -> None:
    file, out = study_file(tmp_path), tmp_path / "out"
    code, text, error = command(main, file, "--out", str(out), "--only", "data.alpha=100", "--seeds", "8")
    assert (code, error) == (0, "")
    assert "2 trials, 0 of them done" in text
    stamps = {path: path.stat().st_mtime_ns for path in (out / "trials").iterdir()}
    assert len(stamps) == 2

    code, text, error = command(main, file, "--out", str(out))
    assert (code, error) == (0, "")
    assert "8 trials, 2 of them done" in text
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    folder = out / "studies" / "mine" / "quick"
    assert (folder / "data.alpha=100+seeds=8" / "table.csv").is_file()
    assert {path.name for path in folder.iterdir() if path.is_file()} == {
        *("table.csv", "table.md", "table.tex", "cells.csv", "trials.csv", "comparisons.csv", "plan.json"),
        *("clients.csv", "clients.md", "clients.tex", "client_accuracy.csv.gz"),
        *("rounds.csv.gz", "curves.png", "curves.svg", "curves.pdf", "report.html", "report.json"),
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
def test_a_page_follows_its_study_and_rests_when_it_has_ended(
    opened: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LivePages, "every", 0.3)
    monkeypatch.setattr("fedbench.render.report.RELOAD", 1)
    (tmp_path / "patient_plugin.py").write_text(
        "import pathlib, time\n"
        "from fedbench.trackers import Tracker, register_tracker\n"
        "@register_tracker('patient')\n"
        "class Patient(Tracker):\n"
        "    def round(self, run, seen):\n"
        "        while seen.round > 1 and "  # the first one has been reported by then
        f"not pathlib.Path({str(tmp_path / 'seen')!r}).exists():\n            time.sleep(0.05)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    out, codes = tmp_path / "out", list[int]()
    arguments = [study_file(tmp_path, seeds=(8,)), "--out", str(out), "--only", "data.alpha=100"]
    arguments += ["--import", "patient_plugin", "--track", "patient"]
    study = threading.Thread(target=lambda: codes.append(main(arguments)))
    study.start()
    file = out / "studies" / "mine" / "quick" / "data.alpha=100" / "report.html"
    try:
        while not file.is_file():
            assert study.is_alive()
            time.sleep(0.05)
        page = opened(file)
        page.set_default_timeout(120_000)
        page.locator("#state", has_text="Running: 0 of 2 trials have ended").wait_for()
        page.locator("#now svg .curve").first.wait_for(state="attached")
        assert page.locator("progress").get_attribute("value") != "0.000"
    finally:
        (tmp_path / "seen").touch()
        study.join()
    assert codes == [0]
    page.locator("body:not([data-reload]) #figures svg.lines").wait_for()  # it has loaded the last page by itself
    assert page.locator("#state, #now").count() == 0
    page.evaluate("window.same = true")
    time.sleep(1.5)
    assert page.evaluate("window.same")
    assert capsys.readouterr().out.count(f"page: {file.as_uri()}\n") == 2


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
        "from fedbench.trackers import Tracker, register_tracker\n"
        "@register_tracker('boom')\n"
        "class Boom(Tracker):\n"
        "    def start(self, run):\n        raise ConnectionError('nobody there')\n"
    )
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: Mine\nshows: x\nbase: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 2}\n"
        "grid:\n  method:\n    good: {}\n    crash: {method.name: crashing}\n    blowup: {clients.lr: 1e30}\n"
        "seeds: [8]\ntables: {accuracy: {rows: [], columns: [method], best: row}}\nscales: {quick: {}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = [
        str(file),
        "--out",
        str(tmp_path / "out"),
        "--no-try",
        "--import",
        "crashing_plugin",
        "--max-concurrent",
        "1",
    ]
    code, text, error = command(main, *arguments, "--track", "boom")
    assert code == 0
    assert error == "warning: --track boom: stopped tracking (ConnectionError: nobody there)\n"  # once, of three trials
    (line,) = (line for line in text.splitlines() if line.startswith("failed: "))
    assert "failed: crash (seed 8): ArithmeticError: out of luck (crashing_plugin.py, line 9, in aggregate) (" in line
    assert Path(line.rpartition("(")[2].rstrip(")")).name == "traceback.txt"
    assert "non-finite" in text
    cells = pd.read_csv(tmp_path / "out" / "studies" / "mine" / "quick" / "cells.csv").set_index("method")
    assert cells["failed"].to_dict() == {"good": 0, "crash": 1, "blowup": 0}
    assert cells["diverged"].to_dict() == {"good": 0, "crash": 0, "blowup": 1}
    code, text, _ = command(main, *arguments, "--strict")
    assert code == 1
    assert "3 trials, 2 of them done" in text


@pytest.mark.usefixtures("two_cpus", "forgotten")
def test_an_engine_that_is_not_used_is_said_once_on_the_drivers_terminal(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd_engine.py").write_text(
        "from fedbench.simulation.engines import register_engine\n"
        "from fedbench.simulation.engines.eager import Eager\n"
        "@register_engine('odd')\n"
        "class Odd(Eager):\n"
        "    def train(self, *given):\n"
        "        loss = super().train(*given)\n"
        "        self.model.w[0] += 1\n"
        "        return loss\n"
    )
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: Mine\nshows: x\nbase: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 1}\n"
        "grid:\n  method: {a: {}}\n"
        "seeds: [8, 9]\ntables: {accuracy: {rows: [], columns: [method]}}\nscales: {quick: {}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = [str(file), "--out", str(tmp_path / "out"), "--import", "odd_engine", "--max-concurrent", "1"]
    code, _, error = command(main, *arguments, "--set", "run.engine=odd")
    assert code == 0
    assert error == "warning: run.engine = odd: not the same weights as with eager steps; using eager\n"


@pytest.mark.usefixtures("two_cpus")
def test_a_trial_whose_process_dies_is_restarted_as_often_as_was_said(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = tmp_path / "attempts"
    (tmp_path / "dying_plugin.py").write_text(
        "import os\nfrom typing import Literal\n"
        "from fedbench.methods import Method, MethodSettings, register_method\n"
        "class S(MethodSettings):\n    name: Literal['dying'] = 'dying'\n"
        "@register_method(version='1')\n"
        "class Dying(Method[S]):\n"
        "    Settings = S\n"
        "    def aggregate(self, cohort, state, server):\n"
        f"        with open({str(attempts)!r}, 'a') as stream:\n            stream.write('x')\n"
        "        os._exit(1)\n"
    )
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: Mine\nshows: x\nbase: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 2}\n"
        "grid: {method: {dying: {method.name: dying}}}\nseeds: [8]\n"
        "tables: {accuracy: {rows: [], columns: [method]}}\nscales: {quick: {}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = [
        str(file),
        "--out",
        str(tmp_path / "out"),
        "--no-try",
        "--import",
        "dying_plugin",
        "--max-failures",
        "1",
    ]
    code, _, error = command(main, *arguments)
    assert attempts.read_text() == "xx"
    assert code == 1  # nobody pressed Ctrl-C
    assert f"1 trial is left; go on with: {sys.executable} -m fedbench.study" in error


@pytest.mark.usefixtures("two_cpus")
def test_a_password_of_the_checkpoints_place_is_neither_printed_nor_written_below_out(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full_place.py").write_text(
        "import os\nfrom typing import Literal\nfrom fsspec.implementations.memory import MemoryFileSystem\n"
        "from fedbench.methods.fedavg import FedAvg, FedAvgSettings\n"
        "from fedbench.methods import register_method\n"
        "class S(FedAvgSettings):\n    name: Literal['mortal'] = 'mortal'\n    dies: bool = False\n"
        "@register_method(version='1')\n"
        "class Mortal(FedAvg):\n"
        "    Settings = S\n"
        "    def aggregate(self, cohort, state, server):\n"
        "        if self.settings.dies:\n            os._exit(1)\n"
        "        return super().aggregate(cohort, state, server)\n"
        "def refuse(*args, **kwargs):\n    raise PermissionError('no')\n"
        f"if os.getpid() != {os.getpid()}:\n    MemoryFileSystem.exists = refuse\n"
    )
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: Mine\nshows: x\nbase: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 1}\n"
        "grid:\n  method: {a: {method.name: mortal}, b: {method.name: mortal, method.dies: true}}\n"
        "seeds: [8]\ntables: {accuracy: {rows: [], columns: [method]}}\nscales: {quick: {}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    out = tmp_path / "out"
    options = ["--import", "full_place", "--max-failures", "0", "--checkpoints", "memory://me:hunter2@place/runs"]
    code, text, error = command(main, str(file), "--out", str(out), "--no-try", *options)
    assert code == 1
    assert "--checkpoints memory://***@place/runs: cannot be used (" in error
    assert "--checkpoints 'memory://***@place/runs'" in error.partition("1 trial is left; go on with: ")[2]
    assert list(out.glob("ray/**/params.json"))
    leaks = [path for path in out.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert leaks == []
    assert "hunter2" not in text + error


WRONG: list[tuple[list[str], str]] = [
    (["smoke", "--set", "precision=tf32", "--gpus-per-trial", "0"], "precision = tf32: needs a GPU, the device is cpu"),
    (
        ["smoke", "--set", "run.engine=graphed", "--gpus-per-trial", "0"],
        "run.engine = graphed: captured steps need a GPU",
    ),
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
    (["smoke", "--set", "data.name=cifar10", "--data-dir", "/proc"], "data set 'cifar10' is not in /proc"),
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
    assert not list(tmp_path.iterdir())


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
    rows = {row["name"]: row for row in listed}
    assert rows["fixed_gamma"]["quick"]["trials"] == 30
    groups = {name: rows[name]["group"] for name in ("fixed_gamma", "successors", "smoke")}
    assert groups == {"fixed_gamma": "paper", "successors": "beyond", "smoke": "checks"}
    hours = [rows["fixed_gamma"][scale]["core_hours"] for scale in ("quick", "desk", "paper")]
    assert 0 < hours[0] < hours[1] < hours[2]
    code, text, _ = command(main, "--list", "--out", str(out))
    titles = [text.index(title) for title in ("Studies of the paper", "Beyond the paper", "Checks of ours")]
    assert code == 0 and titles == sorted(titles) and "core time" in text
    code, text, _ = command(main, "smoke", "--dry-run", "--out", str(out))
    assert code == 0
    assert "8 trials to run" in text
    assert all(word in text for word in ("time: about", "memory: about", "disk: about", "1 probed"))
    assert not out.exists()


def test_trials_that_another_command_ran_meanwhile_without_a_model_are_said_once_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = StudyJob(request(study_file(tmp_path, seeds=(8,)), "quick", tmp_path / "out", {}, save_model=True))
    first, *others = job.trials.values()
    execute(first, job.store, None, save_model=True)
    for config in others:
        execute(config, job.store, None)
    capsys.readouterr()
    for _ in range(2):
        job.report(interrupted=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert "--save-model: 3 stored trials were run without it and have no model; add --fresh" in line


def test_an_estimate_counts_the_models_that_are_kept(command: Command, tmp_path: Path) -> None:
    words = [study_file(tmp_path), "--out", str(tmp_path / "out"), "--dry-run"]
    (without, kept) = (
        float(re.findall(r"disk: about ([\d.]+) MiB", command(main, *words, *more)[1])[0])
        for more in ([], ["--save-model"])
    )
    assert kept - without == pytest.approx(8 * 4 * 199_210 / 2**20, abs=0.1)
