import re
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedbench.base.errors import ConfigError
from fedbench.base.registry import Registry
from fedbench.methods import METHODS


def test_what_lies_in_the_home_is_found_at_the_first_look_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a_home"
    home.mkdir()
    (home / "__init__.py").write_text(
        "from fedbench.base.registry import Registry\nTHINGS = Registry('thing', __name__)\n"
    )
    (home / "one.py").write_text("from a_home import THINGS\nTHINGS.add('first', 1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import a_home  # type: ignore[import-not-found]

    assert "a_home.one" not in sys.modules
    (home / "two.py").write_text("from a_home import THINGS\nTHINGS.add('another', 2)\n")
    assert list(a_home.THINGS) == ["another", "first"]
    assert a_home.THINGS.get("first") == 1
    assert "first" in a_home.THINGS and "third" not in a_home.THINGS


def test_a_thread_that_looks_while_another_one_imports_sees_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "slow_home"
    home.mkdir()
    (home / "__init__.py").write_text(
        "from fedbench.base.registry import Registry\nTHINGS = Registry('thing', __name__)\n"
    )
    slow = "import time\nfrom slow_home import THINGS\nlist(THINGS)\ntime.sleep(0.3)\nTHINGS.add(__name__, 1)\n"
    for name in ("one", "two"):
        (home / f"{name}.py").write_text(slow)
    monkeypatch.syspath_prepend(str(tmp_path))
    import slow_home  # type: ignore[import-not-found]

    with ThreadPoolExecutor(2) as pool:
        seen = [pool.submit(list, slow_home.THINGS) for _ in range(2)]
    assert [each.result() for each in seen] == [["slow_home.one", "slow_home.two"]] * 2


def test_a_name_can_be_taken_once_and_an_unknown_one_gets_the_nearest() -> None:
    things: Registry[int] = Registry("thing", home="tests.base")
    things.add("apple", 1)
    things.add("apple", 1)
    with pytest.raises(ConfigError, match="thing 'apple' is registered already"):
        things.add("apple", 2)
    with pytest.raises(ConfigError, match=r"unknown thing 'aple'; did you mean 'apple'\?"):
        things.get("aple")


def test_things_from_outside_have_a_version_or_a_fingerprint_and_built_in_ones_none() -> None:
    things: Registry[int] = Registry("thing", home="tests.base")
    things.add("theirs", 2, version="3")
    things.add("mine", 1)
    assert things.version("theirs") == "3"
    assert (things.version("mine") or "").startswith("source ")
    assert {METHODS.version(name) for name in METHODS if name.startswith("fed")} == {None}


def test_who_took_a_name_is_said() -> None:
    things: Registry[int] = Registry("thing", home="tests.base")
    things.add("apple", 1)
    with pytest.raises(ConfigError, match=r"tests\.base\.test_registry: thing 'apple' is registered already"):
        things.add("apple", 2)


def test_only_three_registries_name_a_package_above_their_own() -> None:
    """Import-linter does not see the packages that registries import by name; docs/development.md lists these three."""
    root = Path(__file__).parents[2]
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    order = {name.strip(): number for number, line in enumerate(contracts[0]["layers"]) for name in line.split("|")}
    above = set()
    for file in (root / "fedbench").rglob("*.py"):
        for kind, home in re.findall(r'\("([\w ]+)", home="fedbench\.(\w+)', file.read_text()):
            if order[home] < order[file.relative_to(root / "fedbench").parts[0]]:
                above.add(kind)
    assert above == {"engine", "kind of plot", "check"}
