import sys
from pathlib import Path

import pytest

from fedbench.base.errors import ConfigError
from fedbench.base.registry import Registry


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


def test_a_name_can_be_taken_once_and_an_unknown_one_gets_the_nearest() -> None:
    things: Registry[int] = Registry("thing", home="tests.base")
    things.add("apple", 1)
    things.add("apple", 1)
    with pytest.raises(ConfigError, match="thing 'apple' is registered already"):
        things.add("apple", 2)
    with pytest.raises(ConfigError, match=r"unknown thing 'aple'; did you mean 'apple'\?"):
        things.get("aple")


def test_only_things_from_outside_have_a_version() -> None:
    things: Registry[int] = Registry("thing", home="tests.base")
    things.add("own", 1)
    things.add("theirs", 2, version="3")
    assert (things.version("own"), things.version("theirs")) == (None, "3")
