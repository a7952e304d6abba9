import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbench.base.packs import SUFFIX, packed, read, unpacked

cells = st.one_of(
    st.floats().map(repr),
    st.floats(width=32).map(repr),  # the digits of a float64 for a number of float32
    st.integers().map(str),
    st.sampled_from(["", "nan", "inf", "1e5", "a b", '"x', "é"]),
)


@given(st.lists(st.lists(cells, min_size=2, max_size=3), max_size=6))
def test_whatever_is_packed_comes_back_to_the_byte(rows: list[list[str]]) -> None:
    text = "".join(",".join(row) + "\n" for row in rows)
    files = {"a.csv": text.encode(), "b.csv": text.rstrip("\n").encode(), "c.txt": text.replace("\n", "\r\n").encode()}
    assert unpacked(packed(files)) == files


def test_the_same_files_give_the_same_bytes_in_any_order() -> None:
    files = {"a": b"1", "b": b"2"}
    assert packed(files) == packed(dict(reversed(files.items())))


def test_numbers_of_float32_take_half_the_room() -> None:
    numbers = np.random.default_rng(0).random(2000, dtype=np.float32)
    text = "".join(f"{i},{float(x)!r}\n" for i, x in enumerate(numbers)).encode()
    assert len(packed({"a.csv": b"round,lambda\n" + text})) < 0.6 * len(lzma.compress(text))


def test_a_file_in_a_pack_is_read_by_its_path(tmp_path: Path) -> None:
    pack = tmp_path / f"one{SUFFIX}"
    pack.write_bytes(packed({"a.csv": b"x,y\n1,2\n"}))
    assert read(pack / "a.csv") == b"x,y\n1,2\n"
    with pytest.raises(FileNotFoundError):
        read(pack / "b.csv")
    (tmp_path / "plain").write_bytes(b"3")
    assert read(tmp_path / "plain") == b"3"


@pytest.mark.parametrize("content", [b"", b"nonsense", lzma.compress(b"[]"), packed({"a": b"b" * 99})[:-20]])
def test_a_damaged_pack_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        unpacked(content)


@pytest.mark.parametrize(
    "content", [b"[" * 9999, b'{"a": {"head": ["a"], "columns": ["1"], "single": [7]}}', bytes(2**27)]
)
def test_nonsense_in_a_pack_and_a_bomb_are_no_pack(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a pack"):
        unpacked(lzma.compress(content, preset=0))
