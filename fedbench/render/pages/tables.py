"""The tables of a study's page: the texts of each cell in every view, and the table as text to copy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedbench.analysis.beside import COSTS, Notes, below, beside, noted
from fedbench.analysis.best import line_of
from fedbench.analysis.tables import Place, layout
from fedbench.metrics import METRICS
from fedbench.render.sheets import Entry, latex, markdown
from fedbench.render.study import StudyTable
from fedbench.render.study_sheets import COST_DIGITS, digits_of, lacks_seeds, note_line
from fedbench.specs.names import Beside
from fedbench.specs.paper import Key
from fedbench.specs.parts import TableSpec

MEANS: Mapping[Beside, str] = {
    "spread": "mean ± std",
    "interval": "mean and 95 % interval",
    "both": "mean ± std and 95 % interval",
}
VIEWS = {
    "interval": "95 % interval",
    "difference": "difference to the baseline",
    "paper": "the paper's number",
    "distance": "distance to the paper",
}


@dataclass(frozen=True)
class PageCell:
    """A cell of a table: its text and its number (to sort by) in every view.

    heat: from 0 for the least to 1 for the most of the cells that it is compared with.
    """

    texts: Mapping[str, str]
    numbers: Mapping[str, float]
    heat: float | None
    best: bool


@dataclass(frozen=True)
class PageTable:
    """A table; views: what its cells can show, by key; copies: the table as text, by format."""

    name: str
    caption: str
    remarks: Sequence[str]
    heads: Sequence[str]
    numeric: Sequence[bool]
    rows: Sequence[Sequence[str | PageCell]]
    views: Mapping[str, str]
    copies: Mapping[str, str]


def page_table(table: StudyTable, remarks: Sequence[str]) -> PageTable:
    """Return a table of a report for its page; the cost of a round comes last, unless the table shows it anyway."""
    study, name, filled = table.study, table.name, table.cells
    spec, shown = study.study.tables[name], table.sheet.with_remarks(remarks)
    columns, places = list(dict.fromkeys(p.column for p in filled)), {(p.row, p.column): p for p in filled}
    costs = {} if spec.costs else _costs(beside(spec, filled, costs=True))
    of_columns = {} if spec.costs else _costs(below(spec, filled, costs=True))
    heats, first, counted = _heats(spec, filled), len(shown.heads) - len(columns), lacks_seeds(filled)
    rows: list[list[str | PageCell]] = []
    for key, texts in zip(dict.fromkeys(place.row for place in filled), shown.rows, strict=True):
        cells = zip(columns, texts[first:], strict=True)
        found = (_cell(places.get((key, c)), entry, heats, study.study.show, counted=counted) for c, entry in cells)
        rows.append([*map(_text, texts[:first]), *found, *(_cost(column[key]) for column in costs.values())])
    used = {view for row in rows for cell in row if isinstance(cell, PageCell) for view in cell.texts}
    return PageTable(
        name=name,
        caption=shown.caption,
        remarks=[*(note_line(spec, head, notes) for head, notes in of_columns.items()), *shown.remarks],
        heads=[*shown.heads, *costs],
        numeric=[*shown.numeric[:first], *(True for _ in (*columns, *costs))],
        rows=rows,
        views={"mean": MEANS[study.study.show], **{key: words for key, words in VIEWS.items() if key in used}},
        copies={
            "CSV": layout(spec, filled, *noted(spec, filled)).to_csv(index=False),
            "Markdown": markdown(shown),
            "LaTeX": latex(shown, f"{study.name} {study.scale} {study.variant} {name}"),
        },
    )


def _costs(notes: Notes) -> Notes:
    """Return those of the notes on rows or columns that are costs of a round."""
    return {head: notes[head] for head in COSTS.values() if head in notes}


def _text(cell: str | Entry) -> str:
    return cell.text() if isinstance(cell, Entry) else cell


def _cost(value: float | None) -> str:
    return "-" if value is None else f"{value:.{COST_DIGITS}f}"


def _cell(
    place: Place | None, entry: str | Entry, heats: Mapping[Key, float], show: Beside, *, counted: bool
) -> str | PageCell:
    """Return a cell in every view that has a number, or a word if it has none.

    show: what stands beside a mean; counted: whether to show n.
    """
    if place is None or not isinstance(entry, Entry) or place.numbers["mean"] is None:
        return _text(entry)
    numbers, digits = place.numbers, digits_of(place)
    own_digits = METRICS.get(place.metric).digits
    pairs = numbers.get("difference_n", numbers["seeds"])
    own = f" (n={numbers['n']})" if counted else ""
    apart = f" (n={pairs})" if counted or pairs < numbers["seeds"] else ""
    std = "" if numbers["std"] is None or show == "interval" else f" ± {_number(numbers['std'], digits)}"
    ends = _ends(numbers, "", digits) if show != "spread" else ""
    found: dict[str, tuple[str, float | None]] = {
        "mean": (f"{entry.number}{std}{entry.mark}{ends}{own}", numbers["mean"]),
        "interval": (
            _interval(numbers, "mean", "", digits) + entry.mark + own,
            numbers["mean"] if numbers["low95"] is not None and show == "spread" else None,
        ),
        "difference": (_interval(numbers, "difference", "difference_", digits, "+") + apart, numbers.get("difference")),
        "paper": (_number(numbers["paper"], own_digits), numbers["paper"]),
        "distance": (_number(numbers["paper_difference"], own_digits, "+"), numbers["paper_difference"]),
    }
    there = {view: (text, number) for view, (text, number) in found.items() if number is not None}
    return PageCell(
        texts={view: text for view, (text, _) in there.items()},
        numbers={view: float(number) for view, (_, number) in there.items() if number is not None},
        heat=heats.get(place.key),
        best=entry.best,
    )


def _number(value: float | None, digits: int, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}z.{digits}f}"


def _interval(numbers: Mapping[str, Any], mean: str, ends: str, digits: int, sign: str = "") -> str:
    """Return a number with its interval, if it has one."""
    return _number(numbers.get(mean), digits, sign) + _ends(numbers, ends, digits, sign)


def _ends(numbers: Mapping[str, Any], ends: str, digits: int, sign: str = "") -> str:
    """Return an interval in brackets; empty if there is none."""
    low, high = numbers.get(f"{ends}low95"), numbers.get(f"{ends}high95")
    return "" if low is None else f" [{_number(low, digits, sign)}, {_number(high, digits, sign)}]"


def _heats(table: TableSpec, filled: Sequence[Place]) -> dict[Key, float]:
    """Return for each cell, by key, where it lies between the least (0) and the most (1) of those it is compared with.

    Those are the cells with the same metric in the same row or column, or along the same axis.
    """
    lines: dict[tuple[str, Key], dict[Key, float]] = {}
    for place in filled:
        if place.numbers["mean"] is not None:
            lines.setdefault((place.metric, line_of(table, place)), {})[place.key] = place.numbers["mean"]
    heats: dict[Key, float] = {}
    for line in lines.values():
        low, high = min(line.values()), max(line.values())
        heats |= {key: (value - low) / (high - low) for key, value in line.items() if high > low}
    return heats
