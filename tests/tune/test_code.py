"""The code that a command sends to the nodes of a cluster is what a worker needs, and no more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from fedbench.base.fingerprint import fingerprint
from fedbench.base.plugins import import_modules
from fedbench.base.versions import PACKAGE, complaint, own_version, versions
from fedbench.tune.code import MODULES, packed
from fedbench.tune.options import RunOptions


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """A module that was named by its file and imports from beside it, and one of a package."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("sent_rule", "sent_beside", "sent_kit", "sent_kit.part"):
        monkeypatch.setitem(sys.modules, name, sys)  # so that they are forgotten
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "sent_rule.py").write_text("import sent_beside\n")
    (tmp_path / "sent_beside.py").write_text("FACTOR = 2\n")
    (tmp_path / "unrelated.py").write_text("")
    (tmp_path / "sent_kit").mkdir()
    (tmp_path / "sent_kit" / "__init__.py").write_text("")
    (tmp_path / "sent_kit" / "part.py").write_text("")
    (tmp_path / "sent_kit" / "table.csv").write_text("1,2\n")
    names = (str(tmp_path / "sent_rule.py"), "sent_kit.part", "yaml" if "yaml" in sys.modules else "ray")
    import_modules(names, str(tmp_path))
    return names


def test_modules_are_sent_with_what_they_import_and_are_the_same_there(
    modules: tuple[str, ...], tmp_path: Path
) -> None:
    with packed(RunOptions(tmp_path, modules=modules)) as environment:
        (folder,) = map(Path, environment["py_modules"])
        assert folder.name == MODULES
        there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        own = {"sent_rule.py", "sent_beside.py"}
        assert there == {"__init__.py", *own, *(f"sent_kit/{n}" for n in ("__init__.py", "part.py", "table.csv"))}
        script = f"""
from fedbench.base.fingerprint import fingerprint
from fedbench.base.plugins import import_modules
from fedbench.tune.code import importable
import_modules(*importable({modules!r}, "/not/there"))
print(fingerprint("sent_rule"), fingerprint("sent_kit.part"))
"""
        command = [sys.executable, "-c", script]
        path = f"{folder.parent}:{PACKAGE.parent}"
        found = subprocess.run(command, env={"PYTHONPATH": path}, cwd="/", capture_output=True, text=True)
        assert found.stdout.split() == [fingerprint("sent_rule"), fingerprint("sent_kit.part")], found.stderr
    assert not folder.exists()


def test_fedbench_is_sent_only_where_that_is_asked_for(tmp_path: Path) -> None:
    with packed(RunOptions(tmp_path)) as environment:
        assert environment == {}
    with packed(RunOptions(tmp_path, ship=True)) as environment:
        (package,) = map(Path, environment["py_modules"])
        assert package.name == "fedbench"
        assert own_version(package) == own_version()
        assert Path(environment["working_dir"]).is_dir()


JOINED = """
import sys
from pathlib import Path
from fedbench.base.plugins import import_modules
from fedbench.tune.cluster import cluster
from fedbench.tune.options import RunOptions
_, address, module = sys.argv
import_modules([module])
options = RunOptions(Path("out"), address=address, ship=True, modules=(module,))
with cluster(options, say=lambda text: None):
    import ray
    from fedbench.tune.code import importable
    def found():
        import fedbench
        return fedbench.__file__, *importable([module], "")[0]
    print(*ray.get(ray.remote(num_cpus=0)(found).remote()))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("one_cpu")
def test_a_job_that_was_submitted_with_an_environment_of_its_own_can_send_code(tmp_path: Path) -> None:
    job = {"runtime_env": {"working_dir": "gcs://job.zip", "py_modules": ["gcs://modules.zip"]}}
    environment = {**os.environ, "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(job)}
    (tmp_path / "sent_rule.py").write_text("")
    words = [sys.executable, "-c", JOINED, ray.get_runtime_context().gcs_address, str(tmp_path / "sent_rule.py")]
    joined = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert joined.returncode == 0, joined.stderr
    place, name = joined.stdout.split()
    assert "runtime_resources" in place, "it is the fedbench that was sent"
    assert name == "sent_rule", "and so is the module"


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
