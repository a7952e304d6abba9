"""What all command lines share: options in full, and a line that says how to go on."""

import ast
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedbench.cli.main import COMMANDS, parser_of
from tests.conftest import heed_interrupts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_takes_an_abbreviated_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = parser_of(name)
    known = {option for action in parser._actions for option in action.option_strings}
    shortened = {option[:-1] for option in known if option.startswith("--")} - known
    assert shortened
    for option in shortened:
        _, left = parser.parse_known_args([*positional(parser), option])
        assert left == [option]
    assert capsys.readouterr().err == ""


def positional(parser: object) -> list[str]:
    """Words for the arguments that a command cannot do without."""
    wanted = [action for action in parser._actions if not action.option_strings and action.required]  # type: ignore[attr-defined]
    return [next(iter(action.choices or ["word"])) for action in wanted]


def test_no_parser_anywhere_takes_abbreviations() -> None:
    for path in [*ROOT.glob("fedbench/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "ArgumentParser":
                refused = [word for word in node.keywords if word.arg == "allow_abbrev"]
                assert refused and ast.unparse(refused[0].value) == "False", f"{path}, line {node.lineno}"


def script(folder: Path) -> None:
    """Write a script as pip installs it for the command `fedbench`."""
    folder.mkdir()
    path = folder / "fedbench"
    path.write_text(f"#!{sys.executable}\nfrom fedbench.__main__ import console\n\nconsole()\n")
    path.chmod(0o755)


WAYS = {
    "the module": [sys.executable, "-m", "fedbench.trial"],
    "the package": [sys.executable, "-m", "fedbench", "trial"],
    "another name of the interpreter": ["../python", "-m", "fedbench.trial"],
    "a script on the path": ["fedbench", "trial"],
    "a script by its path": ["./bin/fedbench", "trial"],
}


@pytest.mark.parametrize("way", WAYS)
def test_the_line_to_go_on_with_names_the_command_that_was_used(way: str, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    script(folder / "bin")
    started = WAYS[way]
    (tmp_path / "python").symlink_to(sys.executable)
    path = (
        os.pathsep.join([str(folder / "bin"), os.environ["PATH"]]) if started[0] == "fedbench" else os.environ["PATH"]
    )
    settings = ["--set", "data.train_size=100", "--set", "clients.count=2", "--set", "rounds=100000", "--out", "out"]
    process = subprocess.Popen(
        [*started, *settings],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    assert process.stdout
    assert process.stdout.readline().startswith("round 1/"), process.communicate()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    said = error.strip().splitlines()[-1].partition("go on with: ")[2]
    assert shlex.split(said) == [*started, "--out", "out", "--resume"]
