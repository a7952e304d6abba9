"""Tables of numbers as columns: many CSV files are parsed in one call."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Column = NDArray[Any]
HEADER = re.compile(rb"[A-Za-z_]\w*(,[A-Za-z_]\w*)+")
NUMBERS = b"0123456789+-.eE,nafi\n"  # all characters of rows of numbers, nan and inf included


@dataclass(frozen=True, eq=False)
class Columns(Mapping[str, Column]):
    """Read-only columns of a table by name: the rows from start to stop of columns that several tables may share."""

    whole: Mapping[str, Column]
    start: int = 0
    stop: int | None = None

    def __getitem__(self, name: str) -> Column:
        return self.whole[name][self.start : self.stop]

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole)

    def __len__(self) -> int:
        return len(self.whole)

    def frame(self) -> "pd.DataFrame":
        """Return a new data frame of the columns."""
        import pandas as pd

        return pd.DataFrame({name: self[name] for name in self})


def columns_of(table: "pd.DataFrame") -> Columns:
    """Return the columns of a data frame."""
    return Columns({str(name): _read_only(table[name].to_numpy()) for name in table})


@dataclass(frozen=True)
class _Table:
    """A CSV file of numbers: its header, the type of every column, its rows as text, and how many there are."""

    header: bytes
    types: tuple[str, ...]
    body: bytes
    rows: int


def parse_together(contents: Sequence[bytes]) -> list[Columns | None]:
    """Parse CSV files, similar ones in one call of pandas, since a call costs more than the rows of a small file do.

    Returns the columns of each file, exactly as pandas parses the file on its own, whatever the other files hold; and
    None for each file that has to be parsed on its own because it is not a plain table of numbers.
    """
    found: list[Columns | None] = [None] * len(contents)
    groups: dict[tuple[bytes, tuple[str, ...]], dict[int, _Table]] = {}
    for number, content in enumerate(contents):
        if table := _plain_table(content):
            groups.setdefault((table.header, table.types), {})[number] = table
    for tables in groups.values():
        whole, end = _parsed(list(tables.values())), 0
        for number, table in tables.items() if whole else ():
            assert whole is not None
            found[number] = Columns(whole.whole, end, end + table.rows)
            end += table.rows
    return found


def _plain_table(content: bytes) -> _Table | None:
    """Return a file as a table if it has several columns, with as many numbers in every row; otherwise None."""
    header, _, body = content.partition(b"\n")
    names = header.split(b",")
    if not HEADER.fullmatch(header) or len(set(names)) < len(names) or body.translate(None, NUMBERS):
        return None
    lines = body.removesuffix(b"\n").split(b"\n")
    if any(line.count(b",") != len(names) - 1 for line in lines):
        return None
    # A column with a float or a gap in its first row has floats; `_parsed` checks that the others have whole numbers.
    types = tuple("int64" if cell.lstrip(b"-").isdigit() else "float64" for cell in lines[0].split(b","))
    return _Table(header, types, body if body.endswith(b"\n") else body + b"\n", len(lines))


def _parsed(tables: Sequence[_Table]) -> Columns | None:
    """Return the columns of all rows of tables with the same header and types; None if they have other types."""
    import pandas as pd

    first = tables[0]
    try:
        parsed = pd.read_csv(BytesIO(b"".join([first.header, b"\n", *(t.body for t in tables)])), low_memory=False)
    except ValueError:  # pandas' own errors are such
        return None
    as_expected = list(map(str, parsed.dtypes)) == list(first.types) and len(parsed) == sum(t.rows for t in tables)
    return columns_of(parsed) if as_expected else None


def _read_only(column: Column) -> Column:
    column = column.view()
    column.flags.writeable = False
    return column
