from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, model_validator

from fedbench.base.errors import ConfigError
from fedbench.base.explain import fields, is_key, keys, validated
from fedbench.base.fields import Seeds, Strict, ValidValues, Whole, invalid, one_of
from fedbench.base.registry import Registry


class Shape(Strict):
    kind: str
    name: str = ""


class Circle(Shape):
    kind: Literal["circle"] = "circle"
    radius: Annotated[float, Field(gt=0)]


class Square(Shape):
    kind: Literal["square"] = "square"
    side: Whole = 1
    corner: Annotated[list[int], ValidValues("two whole numbers")] = [0, 0]


SHAPES: Registry[type[Shape]] = Registry("shape", home="tests.base")
SHAPES.add("circle", Circle)
SHAPES.add("square", Square)


class Drawing(Strict):
    title: str
    seeds: Seeds = [1]
    shapes: list[Annotated[Shape, one_of("kind", SHAPES.get, SHAPES)]] = []
    named: dict[str, Annotated[Shape, one_of("kind", SHAPES.get, SHAPES, default="square")]] = {}
    sizes: dict[Literal["calm", "wild"], int] = {}
    mood: Literal["calm", "wild"] | list[Literal["calm", "wild"]] = "calm"

    @model_validator(mode="after")
    def _check(self) -> "Drawing":
        if self.title == "bad":
            raise invalid("a drawing must not be called bad")
        return self


WRONG: list[tuple[dict[Any, Any], str]] = [
    ({}, "title is missing"),
    ({"titel": "x"}, "unknown key 'titel'; did you mean 'title'? Known: title, seeds"),
    ({"title": 5}, "title = 5: must be a word"),
    ({"title": "bad"}, "a drawing must not be called bad"),
    ({"title": "x", "seeds": ["8", 9]}, "seeds.1 = '8': must be a whole number at least 0"),
    ({"title": "x", "seeds": [8, 9.0]}, "seeds.2 = 9.0: must be a whole number at least 0"),
    ({"title": "x", "seeds": []}, "seeds = []: must be a list that is not empty"),
    (
        {"title": "x", "shapes": [{"kind": "square"}, {"kind": "circel"}]},
        "shapes.2.kind: unknown shape 'circel'; did you",
    ),
    ({"title": "x", "shapes": [{"kind": "circle", "radius": 0}]}, "shapes.1.radius = 0: must be a number above 0"),
    ({"title": "x", "shapes": [{"kind": "circle", "side": 1, "radius": 1}]}, "unknown key 'shapes.1.side' of circle"),
    ({"title": "x", "shapes": [{"kind": "circle"}]}, "shapes.1.radius is missing"),
    ({"title": "x", "shapes": [3]}, "shapes.1 = 3: must be settings"),
    ({"title": "x", "named": {"a": {"side": -1}}}, "named.a.side = -1: must be a whole number at least 0"),
    ({"title": "x", "named": {"a": {"corner": [0, "b"]}}}, "named.a.corner = [0, 'b']: must be two whole numbers"),
    ({"title": "x", "mood": "wilt"}, "mood = 'wilt': must be one of calm, wild (did you mean 'wild'?)"),
    ({"title": "x", "mood": ["calm", "wilt"]}, "mood.2 = 'wilt': must be one of calm, wild"),
    ({5: "x"}, "5 is not a key; must be a word"),
    (
        {"title": "x", "sizes": {"wilt": 1}},
        "sizes: 'wilt' is not a key; must be one of calm, wild (did you mean 'wild'?)",
    ),
    ({"title": "x", "sizes": {5: 1}}, "sizes: 5 is not a key; must be one of calm, wild"),
    ({"title": "x", "named": {5: {}}}, "named: 5 is not a key; must be a word"),
]


@pytest.mark.parametrize(("raw", "line"), WRONG)
def test_what_is_wrong_is_one_line_with_its_place_and_what_would_be_right(raw: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        validated(Drawing, raw, "here: ")
    assert str(raised.value).startswith(f"here: {line}")
    assert "\n" not in str(raised.value)
    assert "Annotated" not in str(raised.value)


def test_the_class_is_the_one_that_is_named() -> None:
    drawing = validated(Drawing, {"title": "x", "shapes": [{"kind": "circle", "radius": 2}], "named": {"a": {}}})
    assert drawing.shapes == [Circle(radius=2)]
    assert drawing.named == {"a": Square()}
    assert drawing.model_dump()["shapes"] == [{"kind": "circle", "name": "", "radius": 2.0}]


class Config(Strict):
    drawing: Annotated[Shape, one_of("kind", SHAPES.get, SHAPES)]
    size: Whole = 0


def test_keys_are_those_of_all_classes_that_can_be_chosen() -> None:
    assert list(keys(Config)) == [
        "drawing.kind",
        "drawing.name",
        "drawing.radius",
        "drawing.side",
        "drawing.corner",
        "size",
    ]
    assert {item.key: item.owner for item in fields(Config)}["drawing.radius"] is Circle
    assert is_key(Config, "drawing.side") and is_key(Config, "size")
    assert not is_key(Config, "drawing") and not is_key(Config, "drawing.sides")
