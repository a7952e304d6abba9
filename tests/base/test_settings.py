from pathlib import Path

import pytest

from fedbench.base.errors import UserError
from fedbench.base.settings import load_yaml, merge, nest, parse_assignments


def test_dotted_and_nested_keys_mean_the_same() -> None:
    assert nest({"data.alpha": 1, "data": {"name": "x"}}) == {"data": {"alpha": 1, "name": "x"}}


@pytest.mark.parametrize("settings", [{"a.b": 1, "a": {"b": 2}}, {"a": 1, "a.b": 2}])
def test_a_key_given_twice_is_an_error(settings: dict[str, object]) -> None:
    with pytest.raises(UserError, match="given twice"):
        nest(settings)


def test_values_are_read_as_yaml_1_2() -> None:
    parsed = parse_assignments(["a=5e-4", "b=no", "c=null", "d=true", "e=[1, x]", "f.g=0.1", "f.h=x=y"])
    assert parsed == {"a": 5e-4, "b": "no", "c": None, "d": True, "e": [1, "x"], "f": {"g": 0.1, "h": "x=y"}}


def test_a_later_assignment_wins() -> None:
    assert parse_assignments(["a.b=1", "a.b=2"]) == {"a": {"b": 2}}


@pytest.mark.parametrize("text", ["a", "=1", "a..b=1", "a" + ".a" * 5000 + "=1", "a=&a [*a]"])
def test_a_malformed_assignment_is_an_error(text: str) -> None:
    with pytest.raises(UserError):
        parse_assignments([text])


def test_merging_keeps_what_is_not_overridden() -> None:
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}


@pytest.mark.parametrize(("text", "message"), [("a: [1", "line 1: not valid YAML"), ("- 1", "expected settings")])
def test_a_bad_yaml_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"bad\.yaml") as raised:
        load_yaml(path)
    assert message in str(raised.value)


def test_a_missing_yaml_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml: cannot be read"):
        load_yaml(tmp_path / "none.yaml")
