"""The speed command, and what others make of what it measured."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedbench.cli.listing import study_rows
from fedbench.cli.speed import line_to_use, own_speed, span
from fedbench.cost.cases import Machine, Setting
from tests.commands import study
from tests.conftest import heed_interrupts

Command = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A results folder with what was measured of one model, and what was printed."""
    out = tmp_path_factory.mktemp("speed")
    command = [sys.executable, "-m", "fedbench.speed", "--models", "mlp", "--seconds", "2", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    assert done.stderr == ""
    return out, done.stdout


def test_every_way_is_measured_or_left_out_with_the_reason(measured: tuple[Path, str]) -> None:
    out, text = measured
    content = json.loads((out / "speed" / "speed.json").read_text())
    found = {(row["precision"], row["at_once"], row["threads"]) for row in content["rows"]}
    cpus = Machine.here().cpus
    if Machine.here().device == "cpu":
        assert {("float32", 1, 1), ("float32", cpus, 1)} <= found
        assert "left out: tf32 (needs a GPU, the device is cpu)" in text
        for precision in ("bfloat16", "float64"):  # on a busy machine there may be no time for them
            late = f"mlp, eager, {precision}, 1 at once, 1 thread (no time is left; give more --seconds)"
            assert ((precision, 1, 1) in found) != (f"left out: {late}" in text)
    for row in content["rows"]:
        assert row["samples"] > 0
        assert row["rounds"] > 0
        assert row["share"] > 0
        assert row["memory"] > 2**20


def test_it_ends_with_the_line_to_use_and_the_time_of_every_study(measured: tuple[Path, str]) -> None:
    out, text = measured
    for name in study_rows(out):
        if name["paper"] and name["name"] != "smoke":
            assert f" {name['name']} " in text
    *_, use, kept = text.splitlines()
    assert use.startswith("use: --cpus-per-trial " if Machine.here().device == "cpu" else "use: --gpus-per-trial ")
    assert (
        kept
        == f"kept for --dry-run and drawn: speed.json, speed.csv, speed.png, speed.svg, speed.pdf in {out / 'speed'}"
    )
    assert (out / "speed" / "speed.png").stat().st_size > 10_000


def test_a_dry_run_uses_what_was_measured(measured: tuple[Path, str], command: Command) -> None:
    out, _ = measured
    date = json.loads((out / "speed" / "speed.json").read_text())["date"]
    code, text, _ = command(study, "smoke", "--dry-run", "--out", str(out))
    assert code == 0
    assert f"kinds of trials: 0 stored, 1 measured by fedbench.speed on {date}, 0 probed" in text


def test_a_dry_run_probes_what_was_not_measured(tmp_path: Path, command: Command) -> None:
    code, text, _ = command(study, "smoke", "--dry-run", "--out", str(tmp_path))
    assert code == 0
    assert "kinds of trials: 0 stored, 1 probed" in text


def test_ctrl_c_ends_it_in_one_line_and_keeps_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedbench.speed", "--models", "mlp", "--seconds", "500", "--out", str(tmp_path)]
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )
    assert running.stdout is not None
    assert running.stdout.readline().startswith("measuring on ")
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    while len(children.read_text().split()) < 2:  # until it has just started its server of processes
        assert running.poll() is None
    os.killpg(running.pid, signal.SIGINT)
    _, error = running.communicate(timeout=60)
    assert (running.returncode, error) == (130, "interrupted\n")
    assert not list((tmp_path / "speed").iterdir())


@pytest.mark.parametrize(
    ("machine", "setting", "line"),
    [
        (Machine("cpu", "x", 8), Setting("eager", "float32", 4, 2), "--cpus-per-trial 2"),
        (
            Machine("cuda", "x", 8, 1, 2**34),
            Setting("graphed", "float32", 4, 1),
            "--gpus-per-trial 0.25 --set run.engine=graphed",
        ),
        (
            Machine("cuda", "x", 8, 1, 2**34),
            Setting("eager", "float32", 1, 1),
            "--gpus-per-trial 1 --set run.engine=eager",
        ),
        (
            Machine("cuda", "x", 12, 4, 2**34),
            Setting("graphed", "float32", 8, 1),
            "--gpus-per-trial 0.125 --cpus-per-trial 0.37 --set run.engine=graphed",
        ),
    ],
)
def test_the_line_has_the_options_of_the_best_setting(machine: Machine, setting: Setting, line: str) -> None:
    assert line_to_use(setting, machine) == line


def test_a_time_has_the_unit_that_suits_it() -> None:
    assert [span(s) for s in (5, 119, 180, 7300, 90_000, 86_400 * 1846)] == [
        "5 s",
        "119 s",
        "3 min",
        "2 h",
        "25 h",
        "1,846 days",
    ]


def test_hardware_without_bfloat16_can_compute_in_float32_instead() -> None:
    matrices = {"float32": 100.0, "bfloat16": 1.0, "tf32": 500.0, "float64": 40.0}
    assert [own_speed(matrices, name) for name in matrices] == [100.0, 100.0, 500.0, 40.0]
