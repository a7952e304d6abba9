import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedbench.models import build
from fedbench.simulation.record import round_columns
from tests.commands import trial as main
from tests.conftest import TINY, heed_interrupts

Command = Callable[..., tuple[int, str, str]]
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
PARTIAL = ["--set", "clients.participation=0.6"]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in csv.DictReader(stream)]


def test_a_run_leaves_its_config_environment_rounds_clients_and_summary(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, text, _ = command(main, *SETTINGS, *PARTIAL, "--out", str(out), "--save-model")
    assert code == 0
    assert "final accuracy" in text.strip().splitlines()[-1]
    assert {path.name for path in out.iterdir()} == {
        *("config.yaml", "environment.json", "summary.json", "partition.csv", "rounds.csv", "clients.csv", "model.pt"),
        *("indicators.csv", "classes.csv", "histogram.csv"),
    }
    header = (out / "rounds.csv").read_text().splitlines()[0]
    assert header == ",".join(round_columns(validation=False))
    assert [row["round"] for row in rows(out / "rounds.csv")] == ["1", "2", "3"]
    clients = rows(out / "clients.csv")
    assert list(clients[0]) == ["round", "client", "lambda", "samples"]
    assert len(clients) == 3 * 3
    summary = json.loads((out / "summary.json").read_text())
    accuracies = [float(row["test_accuracy"]) for row in rows(out / "rounds.csv")]
    assert summary["final_accuracy"] == pytest.approx(sum(accuracies) / 3)
    assert summary["best_accuracy"] == max(accuracies)
    assert summary["last_accuracy"] == accuracies[-1]
    assert summary["bytes_up"] == summary["bytes_down"] == 3 * 3 * 199_210 * 4
    assert summary["peak_memory_bytes"] > 10**7
    assert summary["peak_gpu_memory_bytes"] is summary["peak_gpu_reserved_bytes"] is None  # a CPU run
    assert summary["seconds_train"] > 0
    partition = rows(out / "partition.csv")
    assert sum(int(row["samples"]) for row in partition) == 300
    build("mlp", (1, 28, 28), 10).load_state_dict(torch.load(out / "model.pt", weights_only=True))
    assert json.loads((out / "environment.json").read_text())["threads"] == 1


def test_show_prints_the_resolved_settings_and_runs_nothing(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, text, _ = command(main, "--set", "data.name=cifar100", "--show", "--out", str(out))
    assert code == 0
    assert "lr: 0.01" in text
    assert text.splitlines()[-1].startswith("hash: ")
    assert not out.exists()


def test_set_wins_over_the_config_file(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("data.alpha: 0.5\nclients: {count: 7}\n")
    _, text, _ = command(main, "--config", str(file), "--set", "data.alpha=0.25", "--show")
    assert "alpha: 0.25" in text
    assert "count: 7" in text


def test_an_occupied_folder_is_left_alone(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    for extra in ([], ["--resume"]):
        code, _, error = command(main, *SETTINGS, "--out", str(tmp_path), *extra)
        assert code == 2
        assert str(tmp_path) in error
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_finished_run_is_not_run_again_and_not_mixed_with_another(command: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    _, first, _ = command(main, *SETTINGS, "--out", out)
    code, again, _ = command(main, "--out", out, "--resume")
    assert code == 0
    assert first.strip().splitlines()[-1] in again
    code, _, error = command(main, *SETTINGS, "--set", "seed=9", "--out", out, "--resume")
    assert code == 2
    assert "another config" in error


def test_a_diverged_run_is_recorded_and_exits_with_1(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, text, _ = command(main, *SETTINGS, "--set", "clients.lr=1e30", "--out", str(out))
    assert code == 1
    assert "diverged" in text.strip().splitlines()[-1]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "diverged"
    assert summary["final_accuracy"] is None
    assert "nan" not in (out / "rounds.csv").read_text().lower()


def start(out: Path, rounds: int) -> "subprocess.Popen[str]":
    arguments = [*SETTINGS, *PARTIAL, "--set", f"rounds={rounds}", "--out", str(out), "--checkpoint-every", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "fedbench.trial", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
        preexec_fn=heed_interrupts,
    )


def wait_for_rounds(out: Path, count: int) -> None:
    for _ in range(2400):
        if (out / "rounds.csv").exists() and len((out / "rounds.csv").read_text().splitlines()) > count:
            return
        time.sleep(0.05)
    raise AssertionError("the run did not get that far")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_run_goes_on_bit_for_bit(command: Command, tmp_path: Path, how: signal.Signals) -> None:
    out, whole = tmp_path / "stopped", tmp_path / "whole"
    rounds = 60
    process = start(out, rounds)
    wait_for_rounds(out, 7)
    process.send_signal(how)
    _, error = process.communicate(timeout=60)
    if how != signal.SIGKILL:
        assert process.returncode == 128 + how
        assert f"--out {out} --resume" in error
    assert not (out / "summary.json").exists()
    code, text, _ = command(main, "--out", str(out), "--resume")
    assert code == 0
    assert "resumed after round" in text
    command(main, *SETTINGS, *PARTIAL, "--set", f"rounds={rounds}", "--out", str(whole))
    for name in ("rounds.csv", "clients.csv"):
        assert rows(out / name) == rows(whole / name)
    assert not (out / "checkpoints").exists()


def test_a_torn_table_is_cut_back_on_resume(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(out, 60)
    wait_for_rounds(out, 5)
    process.kill()
    process.communicate()
    with (out / "rounds.csv").open("a") as stream:
        stream.write("99,0.5,")
    command(main, "--out", str(out), "--resume")
    assert [int(row["round"]) for row in rows(out / "rounds.csv")] == list(range(1, 61))


WRONG: list[tuple[list[str], str]] = [
    (["--set", "data.name=mnist6k"], "did you mean 'mnist5k'?"),
    (["--set", "model=mlpp"], "did you mean 'mlp'?"),
    (["--set", "method.name=fedav"], "did you mean 'fedavg'?"),
    (["--set", "clients.cuont=3"], "did you mean 'clients.count'?"),
    (["--set", "data.alpha=0"], "data.alpha = 0: must be a number above 0"),
    (["--set", "data.alpha=-3"], "data.alpha = -3: must be a number above 0"),
    (["--set", "clients.participation=0"], "above 0 and at most 1"),
    (["--set", "clients.participation=1.5"], "above 0 and at most 1"),
    (["--set", "proxy.size=5000"], "must be below 1000"),
    (["--set", "clients.count=5000"], "more clients than training samples"),
    (["--set", "clients.count=1000", "--set", "data.alpha=0.01"], "some client without data"),
    (["--set", "seed"], "expected key=value"),
    (["--set", "seed=2001-99-99"], "the value is not valid YAML"),
    (["--set", "data=&a {x: *a}"], "the value is not valid YAML"),
    (["--set", 'model="a\\nb"'], "unknown model 'a\\nb'"),
    (["--set", "clients.batch_size=" + "9" * 30], "at most 1000000000"),
    (["--data-dir", "/dev/null", "--set", "data.name=cifar10"], "is not a folder"),
    (["--data-dir", "/" + "x" * 300, "--set", "data.name=cifar10"], "File name too long"),
    (["--config", "no-such-file.yaml"], "no-such-file.yaml: cannot be read"),
    (["--checkpoint-every", "-1"], "must be a whole number at least 0"),
    (["--checkpoint-every", "x"], "invalid int value"),
    (["--sett", "x=1"], "--help shows the options"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_input_is_one_line_exit_2_and_nothing_written(
    command: Command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    code, text, error = command(main, *arguments, "--out", str(tmp_path / "run"))
    assert code == 2
    assert text == ""
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--resume", "--save-model", "--checkpoint-every=3"])
def test_options_that_need_a_folder_say_so(command: Command, option: str) -> None:
    code, _, error = command(main, option)
    assert code == 2
    assert "needs --out DIR" in error


def test_a_folder_name_that_is_too_long_is_one_line(command: Command) -> None:
    code, _, error = command(main, "--out", "x" * 300)
    assert code == 2
    assert "File name too long" in error


def test_a_damaged_run_folder_is_named_and_left_alone(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command(main, *SETTINGS, "--out", str(out))
    summary = out / "summary.json"
    for content in ("", "{}", '{"hash": 1}', "[]"):
        summary.write_text(content)
        code, _, error = command(main, "--out", str(out), "--resume")
        assert code == 2
        assert f"{summary}: damaged" in error
    summary.unlink()
    (out / "config.yaml").write_text("")
    code, _, error = command(main, "--out", str(out), "--resume")
    assert code == 2
    assert "config.yaml: empty" in error


def test_a_finished_run_of_another_version_is_not_passed_off_as_this_one(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "run")
    command(main, *SETTINGS, "--out", out)
    monkeypatch.setattr("fedbench.config.identity.SIMULATION_VERSION", -1)
    code, _, error = command(main, "--out", out, "--resume")
    assert code == 2
    assert "another config or version" in error


def test_a_run_of_the_last_version_can_be_resumed(tmp_path: Path, command: Command) -> None:
    out = tmp_path / "run"
    assert command(main, *SETTINGS, "--out", str(out))[0] == 0
    (out / "summary.json").unlink()
    config = (out / "config.yaml").read_text()
    config = config.replace("  engine: auto\n", "  engine: sequential\n")
    (out / "config.yaml").write_text(config.replace("  alpha: 1.0\n", "  alpha: 1.0\n  alpha2: null\n"))
    shown = command(main, "--config", str(out / "config.yaml"), "--show")[1]
    code, text, _ = command(main, "--out", str(out), "--resume")
    assert code == 0
    assert "starting from round 1" in text
    assert json.loads((out / "summary.json").read_text())["hash"] in shown


@pytest.mark.parametrize("line", ["run: 3", "data: [1]", "data: null", "method: 5"])
def test_a_config_that_was_edited_into_nonsense_is_one_line(tmp_path: Path, command: Command, line: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(line)
    code, _, error = command(main, "--out", str(tmp_path / "run"), "--resume")
    assert code == 2
    assert len(error.strip().splitlines()) == 1


def test_there_must_be_a_run_to_resume(tmp_path: Path, command: Command) -> None:
    code, _, error = command(main, *SETTINGS, "--out", str(tmp_path / "typo"), "--resume")
    assert code == 2
    assert "holds no run to resume" in error
    assert not (tmp_path / "typo").exists()


def test_a_model_that_was_not_saved_cannot_be_had_later(command: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    command(main, *SETTINGS, "--out", out)
    code, _, error = command(main, "--out", out, "--resume", "--save-model")
    assert code == 2
    assert "has ended without" in error


def test_where_a_run_was_before_it_was_resumed_is_kept(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command(main, *SETTINGS, "--out", str(out))
    (out / "summary.json").unlink()
    command(main, *SETTINGS, "--out", str(out), "--resume", "--set", "run.threads=2")
    stored = json.loads((out / "environment.json").read_text())
    assert stored["threads"] == 2
    assert [earlier["threads"] for earlier in stored["earlier"]] == [1]


def test_a_full_disk_is_one_line_and_the_run_can_go_on(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    limited = [sys.executable, "-m", "fedbench.trial", *SETTINGS, "--out", str(out), "--checkpoint-every", "1"]
    script = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
    script += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    script += f"sys.argv = {limited[2:]!r}; runpy.run_module('fedbench.trial', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    code, _, _ = command(main, "--out", str(out), "--resume")
    assert code == 0


def test_a_folder_that_cannot_be_written_is_found_before_training(command: Command, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    code, text, error = command(main, *SETTINGS, "--out", str(blocker / "run"))
    assert code == 2
    assert text == ""
    assert f"{blocker / 'run'}: cannot be written" in error
    assert len(error.strip().splitlines()) == 1
    assert blocker.read_text() == ""


def fashion_file(folder: Path, content: Any) -> Path:
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        path = folder / "fashion-mnist" / f"{name}-ubyte"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return folder / "fashion-mnist" / "train-images-idx3-ubyte"


def test_a_wrong_data_file_is_named(command: Command, tmp_path: Path) -> None:
    file = fashion_file(tmp_path, b"\0\0\x08\x01\0\0\0\x01\0")
    out = tmp_path / "run"
    arguments = ["--set", "data.name=fashion_mnist", "--data-dir", str(tmp_path), "--out", str(out)]
    code, _, error = command(main, *arguments)
    assert code == 2
    assert f"{file}: md5" in error
    file.unlink()
    code, _, error = command(main, *arguments)
    assert code == 2
    assert "train-images-idx3-ubyte is missing" in error
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.thorough
def test_the_default_run_passes_90_percent_in_plain_lines(command: Command) -> None:
    code, text, _ = command(main)
    assert code == 0
    *lines, last = text.strip().splitlines()
    assert all(line.startswith("round ") and "accuracy" in line and "left" in line for line in lines)
    assert float(last.split("final accuracy ")[1].split(" %")[0]) > 90
