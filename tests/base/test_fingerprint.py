import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fuzzing.server import CommandServer

METHOD = """
from typing import Literal
from fedbench.methods import Cohort, Method, MethodSettings, Server, Update, register_method
import beside

class MineSettings(MethodSettings):
    name: Literal["mine"] = "mine"

@register_method(%s)
class Mine(Method[MineSettings]):
    Settings = MineSettings

    def aggregate(self, cohort: Cohort, state: object, server: Server) -> Update:
        return Update(w=cohort.combine(cohort.p, beside.GAMMA), lambda_=cohort.p, gamma=beside.GAMMA)
"""


Hash = Callable[[Path], str]


@pytest.fixture(scope="module")
def hash_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hash]:
    """The hash of a trial with the method in a folder, each in a process of its own."""
    server = CommandServer(tmp_path_factory.mktemp("server"), {})

    def read(folder: Path) -> str:
        outcome = server.run(folder, "trial", "--import", "mine", "--show", "--set", "method.name=mine")
        assert outcome.code == 0, outcome.err
        return outcome.out.split("hash: ")[1].strip()

    yield read
    server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(METHOD % "")
    (tmp_path / "beside.py").write_text("import deeper\nGAMMA = deeper.GAMMA\n")
    (tmp_path / "deeper.py").write_text("GAMMA = 0.9\n")
    (tmp_path / "unrelated.py").write_text("x = 1\n")
    return tmp_path


def test_an_edited_plugin_is_another_experiment(folder: Path, hash_of: Hash) -> None:
    first = hash_of(folder)
    (folder / "unrelated.py").write_text("x = 2\n")
    assert hash_of(folder) == first
    (folder / "deeper.py").write_text("GAMMA = 0.8\n")
    second = hash_of(folder)
    (folder / "mine.py").write_text((METHOD % "") + "# and a word\n")
    third = hash_of(folder)
    assert len({first, second, third}) == 3
    (folder / "mine.py").write_text(METHOD % "")
    (folder / "deeper.py").write_text("GAMMA = 0.9\n")
    assert hash_of(folder) == first


def test_a_version_speaks_for_a_plugin_that_gives_one(folder: Path, hash_of: Hash) -> None:
    (folder / "mine.py").write_text(METHOD % 'version="1"')
    first = hash_of(folder)
    (folder / "deeper.py").write_text("GAMMA = 0.8\n")
    assert hash_of(folder) == first


def test_the_same_code_in_another_folder_is_the_same_experiment(
    folder: Path, hash_of: Hash, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    for path in folder.glob("*.py"):
        (other / path.name).write_text(path.read_text())
    assert hash_of(other) == hash_of(folder)


def prints(folder: Path, module: str) -> str:
    """The fingerprint of a module in a folder, in a process of its own."""
    code = f"import {module}; from fedbench.base.fingerprint import fingerprint; print(fingerprint({module!r}))"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("module", ["package", "package.inner", "package.inner.deep"])
def test_a_package_is_fingerprinted_with_what_it_imports_of_itself_wherever_it_lies(
    tmp_path: Path, module: str
) -> None:
    seen = []
    for place in ("one", "other/place"):
        inner = tmp_path / place / "package" / "inner"
        inner.mkdir(parents=True)
        (inner.parent / "__init__.py").write_text("from . import helper\n")
        (inner.parent / "helper.py").write_text("X = 1\n")
        (inner / "__init__.py").write_text("import package.helper\n")
        (inner / "deep.py").write_text("from ..helper import X\n")
        seen.append(prints(tmp_path / place, module))
    assert seen[0] == seen[1]
    (tmp_path / "one" / "package" / "helper.py").write_text("X = 2\n")
    assert prints(tmp_path / "one", module) != seen[0]


def test_a_plugin_beside_fedbenchs_own_source_is_not_fingerprinted_with_it(folder: Path) -> None:
    first = prints(folder, "mine")
    for name in ("fedbench/methods.py", "fedbench/__init__.py"):
        file = folder / "elsewhere" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    for path in folder.glob("*.py"):
        (folder / "elsewhere" / path.name).write_text(path.read_text())
    code = (
        "import sys; from fedbench.base.fingerprint import fingerprint; sys.path.insert(0, 'elsewhere'); "
        "import mine; print(fingerprint('mine'))"
    )
    sys_path = [sys.executable, "-P", "-c", code]
    result = subprocess.run(sys_path, cwd=folder, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == first
