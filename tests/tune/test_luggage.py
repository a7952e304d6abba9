"""Code that travels: what is packed is what a worker needs, and no more."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedbench.base.fingerprint import fingerprint
from fedbench.base.plugins import import_modules
from fedbench.tune.luggage import NAME, packed
from fedbench.tune.options import RunOptions
from fedbench.tune.versions import PACKAGE, complaint, own_version, versions


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """A module that was named by its file and imports from beside it, and one of a package."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("carried_rule", "carried_beside", "carried_kit", "carried_kit.part"):
        monkeypatch.setitem(sys.modules, name, sys)  # so that they are forgotten
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "carried_rule.py").write_text("import carried_beside\n")
    (tmp_path / "carried_beside.py").write_text("FACTOR = 2\n")
    (tmp_path / "unrelated.py").write_text("")
    (tmp_path / "carried_kit").mkdir()
    (tmp_path / "carried_kit" / "__init__.py").write_text("")
    (tmp_path / "carried_kit" / "part.py").write_text("")
    (tmp_path / "carried_kit" / "table.csv").write_text("1,2\n")
    names = (str(tmp_path / "carried_rule.py"), "carried_kit.part", "yaml" if "yaml" in sys.modules else "ray")
    import_modules(names, str(tmp_path))
    return names


def test_modules_travel_with_what_they_import_and_are_the_same_there(modules: tuple[str, ...], tmp_path: Path) -> None:
    with packed(RunOptions(tmp_path, modules=modules)) as environment:
        (luggage,) = map(Path, environment["py_modules"])
        there = {path.relative_to(luggage).as_posix() for path in luggage.rglob("*") if path.is_file()}
        own = {"carried_rule.py", "carried_beside.py"}
        assert there == {"__init__.py", *own, *(f"carried_kit/{n}" for n in ("__init__.py", "part.py", "table.csv"))}
        script = f"""
from fedbench.base.fingerprint import fingerprint
from fedbench.base.plugins import import_modules
from fedbench.tune.luggage import unpacked
import_modules(*unpacked({modules!r}, "/not/there"))
print(fingerprint("carried_rule"), fingerprint("carried_kit.part"))
"""
        command = [sys.executable, "-c", script]
        path = f"{luggage.parent}:{PACKAGE.parent}"
        found = subprocess.run(command, env={"PYTHONPATH": path}, cwd="/", capture_output=True, text=True)
        assert found.stdout.split() == [fingerprint("carried_rule"), fingerprint("carried_kit.part")], found.stderr
    assert not luggage.exists()


def test_fedbench_travels_only_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with packed(RunOptions(tmp_path)) as environment:
        assert environment == {}
    with packed(RunOptions(tmp_path, ship=True)) as environment:
        (package,) = map(Path, environment["py_modules"])
        assert package.name == "fedbench"
        assert own_version(package) == own_version()
        assert Path(environment["working_dir"]).is_dir()
    monkeypatch.setenv(
        "RAY_JOB_CONFIG_JSON_ENV_VAR", '{"runtime_env": {"py_modules": ["gcs://a.zip"], "working_dir": "gcs://b.zip"}}'
    )
    with packed(RunOptions(tmp_path, ship=True)) as environment:  # of a job that was submitted
        assert environment["py_modules"][0] == "gcs://a.zip"
        assert "working_dir" not in environment
        assert NAME not in str(environment)


def test_a_node_that_differs_is_told_with_its_versions_and_builds_of_torch_do_not_count(tmp_path: Path) -> None:
    ours = versions()
    assert complaint("a", ours, ours) == ""
    assert complaint("10.0.0.3", {**ours, "torch": "1.0"}, {**ours, "torch": "2.0"}) == (
        "node 10.0.0.3 has torch 1.0, this command has torch 2.0"
    )
    assert complaint("b", {}, {"fedbench": "1", "torch": "2"}).startswith("node b has fedbench none, torch none")
    assert complaint("c", {"fedbench": "1"}, {"fedbench": "2"}).endswith("; --ship sends fedbench along")
    assert "+" not in ours["torch"]
    with packed(RunOptions(tmp_path, ship=True)) as environment:
        copy = Path(environment["py_modules"][0])
        (copy / "base" / "errors.py").write_text("")
        assert own_version(copy) != own_version()
