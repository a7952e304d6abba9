"""What answers without work answers before anything heavy is imported."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "scipy", "matplotlib", "ray", "pandas", "numpy", "pydantic", "optuna")
SCRIPT = """
import runpy, sys
sys.argv = {arguments!r}
try:
    runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
except SystemExit as stopped:
    print("code", stopped.code)
print("imported", [name for name in {heavy!r} if name in sys.modules])
"""


def imported(module: str, *arguments: str) -> tuple[str, str]:
    """The exit code, and the heavy modules, of a command in a process of its own."""
    script = SCRIPT.format(module=module, arguments=[module, *arguments], heavy=HEAVY)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *_, code, modules = result.stdout.splitlines()
    return code, modules


@pytest.mark.parametrize(
    ("module", "arguments", "code"),
    [
        ("fedbench", ["--help"], 0),
        ("fedbench", ["studdy"], 2),
        ("fedbench", ["study", "--help"], 0),
        ("fedbench.study", ["--help"], 0),
        ("fedbench.study", ["--nonsense"], 2),
        ("fedbench.study", ["fixed_gama"], 2),
        ("fedbench.study", [], 2),
        ("fedbench.study", ["fixed_gamma", "--max-concurrent", "0"], 2),
        ("fedbench.search", ["--help"], 0),
        ("fedbench.search", ["fixed_gama"], 2),
        ("fedbench.report", ["--help"], 0),
        ("fedbench.report", ["fixed_gama"], 2),
        ("fedbench.publish", ["--help"], 0),
        ("fedbench.publish", ["fixed_gama"], 2),
        ("fedbench.verify", ["--help"], 0),
        ("fedbench.verify", ["nowhere"], 2),
        ("fedbench.trial", ["--help"], 0),
        ("fedbench.trial", ["--resume"], 2),
        ("fedbench.clean", ["--help"], 0),
        ("fedbench.new", ["--help"], 0),
        ("fedbench.new", ["method", "My-Rule"], 2),
        ("fedbench.speed", ["--help"], 0),
        ("fedbench.speed", ["--seconds", "0"], 2),
        ("fedbench.data", ["--help"], 0),
    ],
)
def test_help_and_typos_are_answered_before_anything_heavy_is_imported(
    module: str, arguments: list[str], code: int
) -> None:
    assert imported(module, *arguments) == (f"code {code}", "imported []")


def test_a_list_of_studies_needs_neither_ray_nor_anything_that_draws() -> None:
    _, modules = imported("fedbench.study", "--list")
    assert not {"ray", "matplotlib", "scipy", "pandas", "optuna"} & set(eval(modules.removeprefix("imported ")))
