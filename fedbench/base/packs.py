"""Packs: the text files of a folder in one compressed file, without loss.

A pack is JSON in xz, with tables column by column. A file within a pack has a path like any other, PACK/NAME; `read`
takes both kinds.
"""

import json
import lzma
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedbench.base.files import PACKED, read_bytes

SUFFIX = PACKED
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}]  # best for digits

LARGEST = 2**22  # bytes of what is in a pack, packed and unpacked; the largest of ours has 230,000
LARGEST_FILE = 2**28  # bytes of a file in a folder
MEMORY = 2**28  # bytes that unpacking may take; a pack of ours says that it needs 2**26


def read(path: Path, most: int = LARGEST_FILE, *, links: bool = False) -> bytes:
    """Return the bytes of a file in a folder or in a pack.

    FileNotFoundError if there is none, ValueError if the pack is damaged.

    OSError for what is not a plain file, or has more than `most` bytes. links: whether symbolic links are followed.
    """
    pack = path.parent
    if not (pack.name.endswith(SUFFIX) and pack.is_file()):
        return read_bytes(path, most, links=links)
    files = _opened(pack, pack.stat().st_mtime_ns)
    if path.name not in files:
        raise FileNotFoundError(2, "No such file in the pack", str(path))
    return files[path.name]


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return a pack of text files by their names; ValueError if one of them is not text."""
    content = {name: _columns(text.decode()) for name, text in sorted(files.items())}
    return lzma.compress(json.dumps(content, separators=(",", ":")).encode(), filters=FILTERS)


def unpacked(content: bytes) -> dict[str, bytes]:
    """Return the files in a pack; ValueError if it is not a valid pack."""
    try:
        raw = json.loads(_decompressed(content))
        files = {name: (text if isinstance(text, str) else _table(text)).encode() for name, text in raw.items()}
    except (lzma.LZMAError, AttributeError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"not a pack ({error})") from error
    if sum(map(len, files.values())) > LARGEST:
        raise ValueError(f"not a pack (more than {LARGEST} bytes in its files)")
    return files


def _decompressed(content: bytes) -> bytes:
    """Return the decompressed content of a pack; ValueError if it is larger than any pack."""
    reader = lzma.LZMADecompressor(memlimit=MEMORY)
    whole = reader.decompress(content, LARGEST + 1)
    if not reader.eof or len(whole) > LARGEST:
        raise ValueError(f"not a pack (cut off, or more than {LARGEST} bytes in it)")
    return whole


@lru_cache(maxsize=64)
def _opened(pack: Path, changed: int) -> dict[str, bytes]:
    """Return the files in a pack, cached by its path and the time of its last change."""
    return unpacked(read_bytes(pack, LARGEST))


def _columns(text: str) -> str | dict[str, Any]:
    """Return a table column by column, which compresses best; any other text as it is."""
    head, *rows = [line.split(",") for line in text.splitlines()] or [[]]
    if len(head) < 2 or any(len(row) != len(head) for row in rows):
        return text
    columns = [list(column) for column in zip(*rows, strict=True)]
    single = [number for number, column in enumerate(columns) if all(map(_is_single, column))]
    for number in single:
        columns[number] = [str(np.float32(cell)) for cell in columns[number]]
    table = {"head": head, "single": single, "columns": [",".join(column) for column in columns]}
    return table if _table(table) == text else text


def _is_single(cell: str) -> bool:
    """Return whether a number was a float32 before it was written with all digits of a float64."""
    try:
        return repr(float(np.float32(cell))) == cell
    except ValueError:
        return False


def _table(table: Mapping[str, Any]) -> str:
    """Return the text of a table from the columns that `_columns` made."""
    columns = [column.split(",") for column in table["columns"]]
    for number in set(table["single"]):
        columns[number] = [repr(float(np.float32(cell))) for cell in columns[number]]
    return "".join(",".join(row) + "\n" for row in [table["head"], *zip(*columns, strict=True)])
