"""What fedbench takes from Ray is public, and a process that uses fedbench is afterwards as it was before."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedbench
from tests.helpers import study_file

PACKAGE = Path(fedbench.__file__).parent
PUBLIC = {
    "ray",
    "ray.job_config",
    "ray.tune",  # also the name of a logger
    "ray.tune.logger",
    "ray.tune.search",
    "ray.util.metrics",
    "ray.util.scheduling_strategies",
}
ATTRIBUTES = {  # of the module `ray`
    *(
        "available_resources",
        "cancel",
        "cluster_resources",
        "exceptions",
        "get",
        "get_actor",
        "get_gpu_ids",
        "get_runtime_context",
        "init",
    ),
    *("is_initialized", "kill", "method", "nodes", "put", "remote", "shutdown", "util", "wait", "__version__"),
}


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of Ray that a file imports, in whatever way."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "ray")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ray":
            for name in node.names:
                yield str(node.module)
                if name.name.startswith("_"):
                    yield f"{node.module}.{name.name}"
        elif isinstance(node, ast.Constant) and re.fullmatch(r"ray(\.\w+)+", str(node.value)):
            yield str(node.value)  # for import_module, say; loggers have such names, too


def attributes(tree: ast.AST) -> Iterator[str]:
    """Attributes of the module `ray`, and those of anything that is called so, that a file uses or sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("ray", "tune"):
            if isinstance(node.ctx, ast.Store):
                yield f"{node.value.id}.{node.attr} is set"
            elif node.value.id == "ray" and node.attr not in ATTRIBUTES:
                yield f"ray.{node.attr}"
            elif node.value.id == "tune" and node.attr.startswith("_"):
                yield f"tune.{node.attr}"


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_only_public_modules_of_ray_are_used(file: Path) -> None:
    tree = ast.parse(file.read_text())
    assert set(imported(tree)) <= PUBLIC
    if any(True for _ in imported(tree)):
        assert list(attributes(tree)) == []


def test_private_parts_of_ray_are_found() -> None:
    for text in (
        "from ray._private import node",
        "import ray.experimental.internal_kv",
        "from ray.tune.execution import class_cache",
        "from ray.train import report",
        "import importlib; importlib.import_module('ray.air.config')",
        "from ray import _raylet",
    ):
        assert not set(imported(ast.parse(text))) <= PUBLIC, text
    assert list(attributes(ast.parse("ray._raylet.x = 1; ray.get = 2; tune.Tuner._x"))) != []


HOST = """
import contextlib, json, logging, os, random, signal, sys, threading, time, warnings
import numpy, pandas, ray, torch, matplotlib, fedbench
from fedbench.jobs import study
from fedbench.tune import study

def state():
    loggers = [logging.getLogger(name) for name in ("", "ray", "ray.tune", "ray.data", "optuna")]
    return {
        "environment": dict(os.environ),
        "signals": {n.name: repr(signal.getsignal(n)) for n in signal.Signals if n not in (9, 19)},
        "loggers": [(l.name, l.level, len(l.handlers), l.propagate, l.disabled) for l in loggers],
        "warnings": [repr(filter) for filter in warnings.filters],
        "showwarning": repr(warnings.showwarning),
        "random": hash(random.getstate()),
        "numpy": numpy.random.get_state()[1].tolist(),
        "torch": torch.random.get_rng_state().tolist(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "folder": os.getcwd(),
        "files": files(),
        "hooks": [repr(sys.excepthook), repr(sys.unraisablehook)],
    }

def files():
    '''Open files and pipes. Not Ray's own: after any ray.shutdown() some of its connections, and its log, stay open.'''
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing itself
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    own = [path for path in found if not path.startswith(("socket:", "anon_inode:")) and "/session_" not in path]
    return sorted(path.split(":")[0] for path in own)

fedbench.run(sys.argv[1], out=sys.argv[2])  # imports what it needs
before = state()
fedbench.run(sys.argv[1], out=sys.argv[2], fresh=True)
after = state()
print(json.dumps([[name, before[name], after[name]] for name in before if before[name] != after[name]]))

class Listener:
    '''Standard output that notices the line of a worker: Ray forwards it from a thread, some time after the task.'''

    def __init__(self, stream):
        self.stream, self.heard = stream, threading.Event()

    def write(self, text):
        if "from a worker" in text:
            self.heard.set()
        return self.stream.write(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)

sys.stdout = Listener(sys.stdout)
ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
ray.get(ray.remote(lambda: print("from a worker")).remote())
sys.stdout.heard.wait(120)
ray.shutdown()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts the files of /proc")
def test_a_process_that_calls_run_is_afterwards_as_before_and_its_own_ray_works(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOST, study_file(tmp_path, rounds=1, seeds=(8,)), str(tmp_path / "out")]
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("RAY_AUTH_TOKEN_PATH", None)
    host = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=280)
    assert host.returncode == 0, host.stderr
    lines = host.stdout.splitlines()
    (found,) = [json.loads(line) for line in lines if line.startswith("[[") or line == "[]"]
    assert found == []
    assert any("from a worker" in line for line in lines), "its log thread is alive"
