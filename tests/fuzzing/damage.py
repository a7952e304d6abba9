"""Valid files made wrong: their structure (a value, a key, a branch), and their text or bytes."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st


class Raw(NamedTuple):
    """YAML that stands in a file as it is."""

    text: str


def flow(value: Any) -> str:
    """Plain data as YAML in one line."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return json.dumps(value)


def laughs(depth: int) -> str:
    """Ever more of the same: ten times as much with every level."""
    levels = [f"&l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" if n else "&l0 [x, x]" for n in range(depth)]
    return "[" + ", ".join(levels) + "]"


NUMBERS: list[Any] = [0, 1, -1, 2, 3, 10**6, 10**9, 10**9 + 1, 2**63, -(2**64), 10**400, 0.0, -0.0, 0.5, 1.5]
NUMBERS += [1e-300, 1e30, 1e308, -1e308, *map(Raw, (".nan", ".inf", "-.inf", "0x" + "f" * 5000, "9" * 5000, "1e999"))]
WORDS = [
    "",
    " ",
    "null",
    "true",
    "\n",
    "a\nb",
    "a\r\nb",
    "\t",
    "\x00",
    "\x1b[31m",
    "\ud800",
    "é",
    "\u202e",
    "\U0001d4b3",
    "👩‍👩‍👧",
    "\u2028",
]
WORDS += [
    "[red]x[/red]",
    "[/]",
    "[/x]",
    "$",
    "$\\frac$",
    "$x^{$",
    "%s",
    "%",
    "{0}",
    "{",
    "<b>",
    "&",
    "'",
    '"',
    "\\",
    "#",
]
WORDS += [
    "../x",
    "/x",
    "a/b",
    ".",
    "..",
    "~",
    "-",
    "--out",
    "a=b",
    "a.b",
    "a..b",
    ".a",
    "x" * 300,
    "x" * 50000,
    "a," * 99,
]
WRITTEN = ["!!python/object/apply:os.system [echo]", "!!python/name:os.system ", '!!binary "aGk="', "!!set {a, b}"]
WRITTEN += ["2001-01-01", "2001-13-45", "2001-01-01T01:01:01Z", "!!float x", '!!int ""', "!own x", "*none", "&a [*a]"]
WRITTEN += [
    "&a {a: *a}",
    "12:30:45",
    "0o17",
    "1_000",
    "~",
    "!!omap [a: 1]",
    "!!pairs [a: 1, a: 2]",
    "!!str 1",
    "!!null x",
]
WRITTEN += [laughs(4), laughs(9), "[" * 50 + "]" * 50, "[" * 2000 + "]" * 2000, "{a: " * 60 + "1" + "}" * 60, "? [a]"]
WRITTEN += [
    "{<<: {a: 1}}",
    "{<<: 3}",
    "{<<: [*x]}",
    "{a: 1, a: 2}",
    "{[1]: 2}",
    "{{a: 1}: 2}",
    "{1: 2, true: 3, null: 4}",
    ">",
]
BRANCHES: list[Any] = [None, True, False, [], {}, [[]], [None], {"": 1}, {"a.b": 1}, {"a": {"b": []}}, [1, "a"], [{}]]
ODD_WORDS = st.sampled_from(WORDS) | st.text(max_size=6)
ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([*NUMBERS, *WORDS, *BRANCHES]),
    st.sampled_from(WRITTEN).map(Raw),
    st.integers(-3, 12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
)

Path = tuple[Any, ...]


def nodes(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of everything in plain data, its root aside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from nodes(inner, (*path, key))


def at(value: Any, path: Path) -> Any:
    """What stands at a path."""
    for part in path:
        value = value[part]
    return value


def copied(value: Any) -> Any:
    """Plain data of its own."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def renamed(owner: dict[Any, Any], old: Any, new: Any) -> None:
    """Give a key another name, at its place."""
    items = [(new if key == old else key, inner) for key, inner in owner.items()]
    owner.clear()
    owner.update(items)


@st.composite
def damaged(draw: st.DrawFn, valid: Any, words: list[Any], most: int = 4) -> Any:
    """Plain data with a few things wrong; `words` are right elsewhere."""
    whole = {"": copied(valid)}
    value, name = (
        ODD | st.sampled_from(words),
        ODD_WORDS | st.sampled_from([word for word in words if isinstance(word, str)]),
    )
    for _ in range(draw(st.integers(1, most))):
        paths = list(nodes(whole))
        path = draw(st.sampled_from(paths))
        owner, key = at(whole, path[:-1]), path[-1]
        way = draw(
            st.sampled_from(["replace", "replace", "delete", "double", "list", "nest", "rename", "elsewhere", "add"])
        )
        if way == "replace":
            owner[key] = draw(value)
        elif way == "delete" and len(path) > 1:
            del owner[key]
        elif way == "double" and isinstance(owner, list):
            owner.extend([copied(owner[key])] * draw(st.sampled_from([1, 3, 200])))
        elif way == "list":
            owner[key] = [owner[key]]
        elif way == "nest":
            owner[key] = {draw(ODD_WORDS): owner[key]}
        elif way == "rename" and isinstance(owner, dict) and len(path) > 1:
            renamed(owner, key, draw(name))
        elif way == "elsewhere":
            owner[key] = copied(at(whole, draw(st.sampled_from(paths))))
        elif way == "add" and isinstance(owner, dict) and len(path) > 1:
            owner[draw(name)] = draw(value)
    return whole[""]


BYTES = [
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\n",
    b"\t",
    b"\r",
    b": ",
    b"- ",
    b"[",
    b"{",
    b"&a ",
    b"*a",
    b"!!",
    b"\x85",
]


@st.composite
def corrupted(draw: st.DrawFn, valid: bytes, most: int = 4) -> bytes:
    """Bytes with a few of them flipped, cut, put in or repeated."""
    blob = valid
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, len(blob)))
        end = min(len(blob), start + draw(st.sampled_from([1, 2, 7, 40, 10**9])))
        way = draw(st.sampled_from(["flip", "cut", "delete", "insert", "repeat"]))
        if way == "flip" and start < len(blob):
            blob = blob[:start] + bytes([blob[start] ^ (1 << draw(st.integers(0, 7)))]) + blob[start + 1 :]
        elif way == "cut":
            blob = blob[:start]
        elif way == "delete":
            blob = blob[:start] + blob[end:]
        elif way == "insert":
            blob = blob[:start] + draw(st.sampled_from(BYTES) | st.binary(max_size=9)) + blob[start:]
        elif way == "repeat":
            blob = blob[:end] + blob[start:end] * draw(st.sampled_from([1, 2, 30])) + blob[end:]
    return blob


def file_of(valid: Any, words: list[Any], text: str = "") -> st.SearchStrategy[bytes]:
    """A YAML file made wrong by its structure, or by its text (as written, or all in one line)."""
    to_bytes: Callable[[Any], bytes] = lambda value: flow(value).encode()  # noqa: E731
    written = text.encode() or to_bytes(valid)
    return st.one_of(damaged(valid, words).map(to_bytes), damaged(valid, words, 1).map(to_bytes), corrupted(written))
