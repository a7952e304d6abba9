"""Sheets: tables as texts, with a caption and remarks, and their form in Markdown and LaTeX."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedbench.specs.names import Beside

PACKAGES = r"% needs \usepackage{booktabs} and \usepackage{siunitx}"
NUMBER = r"[+-]?\d+(\.\d+)?"
MEANINGS: Mapping[Beside, str] = {
    "spread": " ± standard deviation",
    "interval": " [95 % interval]",
    "both": " ± standard deviation [95 % interval]",
}
LONG = 40  # letters of a text from which on its column has several lines in LaTeX
SIZES = {"": 65, r"\small": 75, r"\footnotesize": 85}  # and how many letters a row may have
SMALLEST = r"\scriptsize\setlength{\tabcolsep}{3pt}"
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{character: f"${character}$" for character in "<>|"},
}


@dataclass(frozen=True)
class Entry:
    """A number in a sheet as text: its spread if it has one, the text behind it, whether it is the best.

    mark: a sign right after the number and its spread, which the caption explains.
    """

    number: str
    spread: str = ""
    rest: str = ""
    best: bool = False
    mark: str = ""

    def text(self, pm: str = " ± ", bold: tuple[str, str] = ("", "")) -> str:
        """Return everything as one text."""
        written = self.number + (f"{pm}{self.spread}" if self.spread else "") + self.mark + self.rest
        return written.join(bold) if self.best else written


@dataclass(frozen=True)
class Sheet:
    """A table as texts: heads, rows, a caption, and remarks in lines; the cells of text columns are no Entry."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str | Entry]]
    caption: str
    remarks: Sequence[str] = ()

    def with_remarks(self, remarks: Sequence[str]) -> "Sheet":
        """Return the same sheet with further remarks behind its own."""
        return replace(self, remarks=[*self.remarks, *remarks])

    @property
    def numeric(self) -> list[bool]:
        """Return for each column whether it has numbers."""
        return [any(isinstance(cell, Entry) for cell in column) for column in zip(*self.rows, strict=True)]

    def texts(self, write: Callable[[Entry], str], escape: Callable[[str], str] = str) -> list[list[str]]:
        """Return all rows as texts."""
        return [[write(cell) if isinstance(cell, Entry) else escape(cell) for cell in row] for row in self.rows]


def markdown(sheet: Sheet) -> str:
    """Return the caption, the table with numbers to the right, and the remarks."""
    rows = sheet.texts(lambda entry: entry.text(bold=("**", "**")), _markdown_text)
    heads = [_markdown_text(head) for head in sheet.heads]
    widths = [max(3, *map(len, column)) for column in zip(heads, *rows, strict=True)]
    rule = [f"{'-' * (width - 1)}{':' if right else '-'}" for width, right in zip(widths, sheet.numeric, strict=True)]
    lines = [
        "| "
        + " | ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, sheet.numeric, strict=True)
        )
        + " |"
        for row in (heads, rule, *rows)
    ]
    return "\n".join([sheet.caption, "", *lines, "", *sheet.remarks]) + "\n"


def latex(sheet: Sheet, label: str) -> str:
    r"""Return a float with caption and label, for \input, which needs the packages booktabs and siunitx.

    Numbers with their spreads are in columns of siunitx, which aligns them at their points, and which \sisetup
    configures. Other parts of a number, such as an interval, are in a column of texts to its right.
    """
    columns = [list(cells) for cells in zip(*sheet.rows, strict=True)]
    kinds = [_Column.of(cells) for cells in columns]
    rows = [" & ".join(kind.cell(cell) for kind, cell in zip(kinds, row, strict=True)) for row in sheet.rows]
    key = "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in label).split())
    return "\n".join(
        [
            PACKAGES,
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{'. '.join(map(latex_text, (sheet.caption, *sheet.remarks)))}.}}",
            rf"\label{{tab:{key}}}",
            r"\sisetup{separate-uncertainty,detect-weight,retain-explicit-plus}",
            rf"\par\medskip{_size(sheet)}",
            rf"\begin{{tabular}}{{{''.join(kind.format for kind in kinds)}}}",
            r"\toprule",
            rf"{' & '.join(kind.head(head) for kind, head in zip(kinds, sheet.heads, strict=True))} \\",
            r"\midrule",
            *(rf"{row} \tabularnewline" for row in rows),  # \\ means another thing after \raggedright
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


@dataclass(frozen=True)
class _Column:
    """How LaTeX sets a column: as numbers, with texts to their right where there are any, or as texts alone."""

    numeric: bool
    behind: bool
    format: str

    @classmethod
    def of(cls, cells: Sequence[str | Entry]) -> "_Column":
        entries = [cell for cell in cells if isinstance(cell, Entry) and re.fullmatch(NUMBER, cell.number)]
        if not entries:
            wrapped = max(map(len, map(_plain, cells)), default=0) > LONG
            return cls(False, False, r"p{0.3\linewidth}" if wrapped else "l")
        behind = any(entry.mark + entry.rest for entry in entries)
        whole, _, decimals = zip(*(entry.number.partition(".") for entry in entries), strict=True)
        signed = "-" if any(entry.number.startswith("-") for entry in entries) else ""
        plus = "+" if any(entry.number.startswith("+") for entry in entries) else ""
        size = f"{max(len(text.lstrip('+-')) for text in whole)}.{max(map(len, decimals))}"
        spreads = [len(entry.spread.replace(".", "").lstrip("0")) or 1 for entry in entries if entry.spread]
        uncertain = f"({max(spreads)})" if spreads else ""
        return cls(True, behind, f"S[table-format={signed or plus}{size}{uncertain}]{'@{}l' if behind else ''}")

    def head(self, text: str) -> str:
        """Return the head of the column."""
        written = latex_text(text)
        return (
            (rf"\multicolumn{{2}}{{c}}{{{written}}}" if self.behind else f"{{{written}}}") if self.numeric else written
        )

    def cell(self, cell: str | Entry) -> str:
        """Return a number and what stands to its right, or a text."""
        if self.numeric and isinstance(cell, Entry) and re.fullmatch(NUMBER, cell.number):
            number = cell.number + (f" +- {cell.spread}" if cell.spread else "")
            rest = _minus(cell.mark + cell.rest).replace(" ", "~")
            if cell.best:
                number, rest = rf"\bfseries {number}", rf"\textbf{{{rest}}}" if rest else ""
            return f"{number} & {rest}" if self.behind else number
        text = latex_text(_plain(cell))
        if self.behind:
            return rf"\multicolumn{{2}}{{c}}{{{text}}}"
        return f"{{{text}}}" if self.numeric else rf"\raggedright {text}" if self.format.startswith("p") else text


def _plain(cell: str | Entry) -> str:
    return cell.text() if isinstance(cell, Entry) else cell


def _size(sheet: Sheet) -> str:
    """Return the font size at which a row fits into a line, by the number of its letters."""
    rows = [sheet.heads, *sheet.texts(Entry.text)]
    letters = sum(min(LONG, max(map(len, column))) for column in zip(*rows, strict=True))
    return next((size for size, most in SIZES.items() if letters <= most), SMALLEST)


def _minus(text: str) -> str:
    """Return a text with its signs as LaTeX sets them in formulas."""
    return "".join(f"${c}$" if c in "+-" else LATEX.get(c, c) for c in text)


def over_seeds(seeds: Sequence[int], *, shown: Beside | None) -> str:
    """Return what a number is, what stands beside it, and over which seeds."""
    listed = ", ".join(map(str, seeds))
    if len(seeds) == 1:
        return f"one seed ({listed})"
    return f"mean{MEANINGS[shown] if shown else ''} over {len(seeds)} seeds ({listed})"


def latex_text(text: str) -> str:
    """Return a text with LaTeX's special characters escaped."""
    return "".join(LATEX.get(character, character) for character in text)


def _markdown_text(text: str) -> str:
    return text.replace("|", r"\|")
