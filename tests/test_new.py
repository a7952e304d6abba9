"""What `fedbench new` writes works as it is, and so does its test."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedbench.templates import EXAMPLES, camel, renamed, usage
from tests.commands import new as main

Command = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parent.parent
NAMES = {kind: f"fresh_{kind}" for kind in EXAMPLES}
MODULES = [kind for kind in EXAMPLES if kind != "study"]
SMALL = ["--set", "rounds=1", "--set", "data.train_size=60", "--set", "data.test_size=60", "--set", "proxy.size=10"]


def process(folder: Path, *arguments: str) -> str:
    """Run a Python module in a folder, as a user would; what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of each kind."""
    folder = tmp_path_factory.mktemp("authors") / "below"
    for kind, name in NAMES.items():
        assert main([kind, name, "--to", str(folder)]) == 0
    return folder


def test_the_tests_that_are_written_pass(written: Path) -> None:
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--rootdir", str(written)]
    assert f"{len(NAMES)} passed" in process(
        written, "pytest", *options, *(f"test_{name}.py" for name in NAMES.values())
    )


def test_new_modules_run_with_the_commands_that_are_shown(written: Path) -> None:
    options = []
    for kind in MODULES:  # all in one run
        door, *own = usage(kind, NAMES[kind]).split()
        assert door == "trial"
        options += own
    text = process(written, "fedbench.trial", *options, *SMALL)
    assert "fresh_method, fresh_model on fresh_dataset, seed 8: final accuracy" in text
    assert (written / "runs" / "fresh_indicator" / "fresh_indicator.csv").exists()


def test_a_new_study_is_understood(written: Path) -> None:
    door, *options = usage("study", NAMES["study"]).split()
    assert "12 trials" in process(written, f"fedbench.{door}", *options, "--dry-run")


def test_it_goes_to_the_current_folder_and_says_how_to_try_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text, error = command(main, "method", "halfway")
    assert (code, error) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["halfway.py", "test_halfway.py"]
    assert "python -m fedbench.trial --import halfway --set method.name=halfway" in text
    assert text.endswith("python -m pytest test_halfway.py\n")


def test_where_pytest_is_missing_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setattr("fedbench.cli.main.find_spec", lambda name: None)
    _, text, _ = command(main, "method", "halfway", "--to", str(tmp_path))
    assert 'python -m pytest test_halfway.py    # after pip install -e ".[test]" in the checkout' in text


@pytest.mark.parametrize("there", ["mine.py", "test_mine.py"])
def test_nothing_is_ever_overwritten(tmp_path: Path, command: Command, there: str) -> None:
    (tmp_path / there).write_text("my work")
    code, _, error = command(main, "method", "mine", "--to", str(tmp_path))
    assert code == 2
    assert f"{there}: is there already; choose another name" in error
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(there, "my work")]


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("method", "", "must be a Python name in small letters, such as my_median"),
        ("method", "Mine", "must be a Python name in small letters"),
        ("method", "my-rule", "must be a Python name in small letters"),
        ("method", "../up", "must be a Python name in small letters"),
        ("method", "2nd", "must be a Python name in small letters"),
        ("method", "class", "must be a Python name in small letters"),
        ("method", "test_mine", "must be a Python name in small letters"),
        ("method", "méthode", "must be a Python name in small letters"),
        ("method", "json", "means something else in Python already; choose one such as my_json"),
        ("method", "method", "means something else in Python already"),
        ("model", "nn", "means something else in Python already"),
        ("indicator", "column", "means something else in Python already"),
        ("method", "fedavg", "another method is called so already"),
        ("model", "mlp", "another model is called so already"),
        ("dataset", "mnist5k", "another dataset is called so already"),
        ("partition", "iid", "another partition is called so already"),
        ("indicator", "coherence", "another indicator is called so already"),
        ("methd", "mine", "invalid choice: 'methd'"),
    ],
)
def test_a_bad_name_is_one_line_and_writes_nothing(
    tmp_path: Path, command: Command, kind: str, name: str, message: str
) -> None:
    code, text, error = command(main, kind, name, "--to", str(tmp_path))
    assert (code, text, len(error.strip().splitlines())) == (2, "", 1)
    assert message in error
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("")
    code, _, error = command(main, "method", "mine", "--to", str(tmp_path / "file"))
    assert code == 2
    assert f"{tmp_path / 'file'}: cannot be written to" in error


@pytest.mark.parametrize("kind", MODULES)
def test_nothing_of_the_examples_name_is_left(kind: str) -> None:
    example = EXAMPLES[kind]
    text = renamed(example.text, example.name, "other_thing")
    assert "other_thing" in text
    assert example.name not in text
    assert camel(example.name) not in text
