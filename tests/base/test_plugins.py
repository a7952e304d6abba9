import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fedbench.base import plugins
from tests.commands import trial as main
from tests.conftest import TINY

Command = Callable[..., tuple[int, str, str]]
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path


def example() -> str:
    (code,) = (block for block in README.read_text().split("```python\n")[1:] if "register_method" in block)
    return code.split("```")[0]


def test_the_readmes_example_runs_as_it_stands(folder: Path, command: Command) -> None:
    code = example()
    assert len(code.splitlines()) < 40
    (folder / "middle.py").write_text(code)
    arguments = ["--import", "middle", *SETTINGS, "--set", "method.name=middle_mean"]
    status, text, error = command(main, *arguments)
    assert (status, error) == (0, "")
    assert "middle_mean" in text.splitlines()[-1]
    _, shown, _ = command(main, *arguments, "--set", "method.trim=0.1", "--show")
    assert "trim: 0.1" in shown
    status, _, error = command(main, *arguments, "--set", "method.trim=0.7")
    assert status == 2
    assert "method.trim = 0.7: must be a number at least 0 and below 0.5" in error


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (None, "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("exit()", "SystemExit"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_line(
    folder: Path, command: Command, code: str | None, reason: str
) -> None:
    if code:
        (folder / f"broken_{reason}.py").write_text(code)
    status, _, error = command(main, "--import", f"broken_{reason}")
    assert status == 2
    assert f"--import broken_{reason}: cannot be imported ({reason}" in error
    assert len(error.strip().splitlines()) == 1


def test_entry_points_of_installed_packages_are_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "installed_plugin.py").write_text("LOADED = True\n")
    monkeypatch.syspath_prepend(str(folder))
    point = EntryPoint("mine", "installed_plugin", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: EntryPoints([point]).select(group=group))
    plugins.load_entry_points.cache_clear()
    plugins.load_entry_points()
    assert sys.modules["installed_plugin"].LOADED


def test_a_metric_of_an_installed_package_is_known_to_study_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    package = folder / "package"
    (package / "plug-1.dist-info").mkdir(parents=True)
    (package / "plug-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (package / "plug-1.dist-info" / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nmine = plugged_metric\n")
    (package / "plugged_metric.py").write_text(
        "from fedbench.metrics import Metric, register_metric\n"
        "register_metric('plugged', Metric('plugged', lambda trial: 1.0))\n"
    )
    (folder / "mine.yaml").write_text(
        "title: x\nshows: x\ngrid: {data.alpha: [1.0]}\nseeds: [8]\nscales: {quick: {}}\n"
        "tables: {a: {rows: [], columns: [data.alpha], value: plugged}}\n"
    )
    arguments = [sys.executable, "-m", "fedbench.report", "mine.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    result = subprocess.run(arguments, env=environment, cwd=folder, capture_output=True, text=True)
    assert "holds no results" in result.stderr  # so the file was read and found right


def test_names_that_plugins_imported_from_0_1_still_work() -> None:
    from fedbench.indicators import Moment, RoundContext, RoundMoment, RunContext
    from fedbench.render.plots.base import PanelData, Scene

    assert (Moment, RoundMoment, Scene) == (RunContext, RoundContext, PanelData)
