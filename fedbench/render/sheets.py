"""A table as people read it, and the same table in Markdown and in LaTeX; a study's and a search's alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

RULES = ("toprule", "midrule", "bottomrule")  # of the package booktabs; lines of LaTeX's own where it is not loaded
LONG = 40  # letters of a text from which on its column has several lines in LaTeX
SIZES = {"": 65, r"\small": 75, r"\footnotesize": 85}  # and how many letters a row may have
SMALLEST = r"\scriptsize\setlength{\tabcolsep}{3pt}"
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{character: f"${character}$" for character in "<>|"},
}


@dataclass(frozen=True)
class Entry:
    """A number in a table, as text: its spread where it has one, what stands behind it, whether it is the best.

    mark: a sign right after the number and its spread, which the caption explains.
    """

    number: str
    spread: str = ""
    rest: str = ""
    best: bool = False
    mark: str = ""

    def text(self, pm: str = " ± ", bold: tuple[str, str] = ("", "")) -> str:
        """All of it in one."""
        written = self.number + (f"{pm}{self.spread}" if self.spread else "") + self.mark + self.rest
        return written.join(bold) if self.best else written


@dataclass(frozen=True)
class Sheet:
    """Heads and rows of a table, and what must be known to read it, in lines; text columns have no Entry."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str | Entry]]
    caption: str
    remarks: Sequence[str] = ()

    @property
    def numeric(self) -> list[bool]:
        """Whether a column has numbers in it."""
        return [any(isinstance(cell, Entry) for cell in column) for column in zip(*self.rows, strict=True)]

    def texts(self, write: Callable[[Entry], str], escape: Callable[[str], str] = str) -> list[list[str]]:
        """All rows as texts."""
        return [[write(cell) if isinstance(cell, Entry) else escape(cell) for cell in row] for row in self.rows]


def markdown(sheet: Sheet) -> str:
    """The caption, the table with numbers to the right, and the remarks."""
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
    r"""A float with caption and label, for \input; it needs no package, and takes the rules of booktabs where loaded.

    A column of numbers is two: the number to the right, all else to the left, so that points and signs stand in line.
    """
    long = [max(map(len, map(str, column))) > LONG for column in zip(*sheet.rows, strict=True)]
    kinds = "".join(
        "r@{}l" if numeric else r"p{0.3\linewidth}" if wrapped else "l"
        for numeric, wrapped in zip(sheet.numeric, long, strict=True)
    )
    heads = [
        rf"\multicolumn{{2}}{{c}}{{{latex_text(head)}}}" if numeric else latex_text(head)
        for head, numeric in zip(sheet.heads, sheet.numeric, strict=True)
    ]
    rows = [[_latex_cell(*cell) for cell in zip(row, sheet.numeric, long, strict=True)] for row in sheet.rows]
    key = "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in label).split())
    return "\n".join(
        [
            *(rf"\providecommand{{\{rule}}}{{\hline}}" for rule in RULES),
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{'. '.join(map(latex_text, (sheet.caption, *sheet.remarks)))}.}}",
            rf"\label{{tab:{key}}}",
            rf"\par\medskip{_size(sheet)}",
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            rf"{' & '.join(heads)} \\",
            r"\midrule",
            *(rf"{' & '.join(row)} \tabularnewline" for row in rows),  # \\ means another thing after \raggedright
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _size(sheet: Sheet) -> str:
    """The size of letters at which a row has room in a line, as far as can be told from their number."""
    rows = [sheet.heads, *sheet.texts(Entry.text)]
    letters = sum(min(LONG, max(map(len, column))) for column in zip(*rows, strict=True))
    return next((size for size, most in SIZES.items() if letters <= most), SMALLEST)


def _latex_cell(cell: str | Entry, numeric: bool, wrapped: bool) -> str:
    """A text, or the two halves of a number; a word among numbers is in the middle of both."""
    if isinstance(cell, Entry):
        behind = (f"~$\\pm$~{cell.spread}" if cell.spread else "") + _minus(cell.mark + cell.rest).replace(" ", "~")
        halves = (_minus(cell.number), behind)
        return " & ".join(rf"\textbf{{{half}}}" if cell.best and half else half for half in halves)
    if numeric:
        return rf"\multicolumn{{2}}{{c}}{{{latex_text(cell)}}}"
    return rf"\raggedright {latex_text(cell)}" if wrapped else latex_text(cell)


def _minus(text: str) -> str:
    """Signs as LaTeX sets them in formulas."""
    return "".join(f"${c}$" if c in "+-" else LATEX.get(c, c) for c in text)


def over_seeds(seeds: Sequence[int], *, spread: bool) -> str:
    """What a number and what follows its ± are, and of how many seeds."""
    listed = ", ".join(map(str, seeds))
    if len(seeds) == 1:
        return f"one seed ({listed})"
    return f"mean{' ± standard deviation' if spread else ''} over {len(seeds)} seeds ({listed})"


def latex_text(text: str) -> str:
    """A text in which LaTeX sees no commands."""
    return "".join(LATEX.get(character, character) for character in text)


def _markdown_text(text: str) -> str:
    return text.replace("|", r"\|")
