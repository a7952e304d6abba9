from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbench.base.errors import UserError
from fedbench.base.settings import (
    YamlError,
    dump_yaml,
    load_yaml,
    merge,
    nest,
    parse_assignments,
    parse_settings,
    parse_yaml,
)


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


VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 1) | st.text("ab: #'\n-", max_size=6)
SETTINGS = st.dictionaries(
    st.text("abcd._", min_size=1, max_size=3), st.recursive(VALUES, lambda inner: st.dictionaries(st.text("xy"), inner))
)


@given(SETTINGS)
def test_settings_that_are_parsed_part_by_part_are_those_of_the_whole_text(settings: dict[str, object]) -> None:
    text = dump_yaml(settings)
    first = parse_settings(text)
    assert first == parse_yaml(text)
    first["changed"] = 1
    for value in first.values():
        if isinstance(value, dict):
            value.clear()
    assert parse_settings(text) == parse_yaml(text)


@pytest.mark.parametrize(
    "text",
    ["", "a", "a: 1\na: 2\n", "a: &x 1\nb: *x\n", "a: {b: 1,\n  c: 2}\nd: 3\n", "--- {a: 1}\n", "a: [1\nb: 2]\n", "1"],
)
def test_texts_that_cannot_be_taken_apart_are_parsed_as_a_whole(text: str) -> None:
    def parsed(parse: Callable[[str], object]) -> object:
        try:
            return parse(text)
        except YamlError as error:
            return str(error)

    assert parsed(parse_settings) == parsed(parse_yaml)
