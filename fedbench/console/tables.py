"""Reports on the screen: a study's tables, claims and parity with the paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedbench.analysis.agreement import RULE, compared
from fedbench.analysis.claims import counted
from fedbench.analysis.comparisons import COMPARED_WORDS
from fedbench.analysis.differences import Differences
from fedbench.analysis.parity import VERDICTS, parity
from fedbench.analysis.ranks import Ranks
from fedbench.analysis.trials import troubles
from fedbench.analysis.values import Trials
from fedbench.base.files import write_text
from fedbench.base.text import printable, say
from fedbench.render.sheets import Entry, Sheet
from fedbench.render.study import StudyReport, folder_of
from fedbench.render.study_sheets import note
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import heads
from fedbench.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

NOTHING = "-"
WORDS = {NOTHING, "diverged", "failed"}  # in place of numbers
LONGEST = 20  # letters of a word that is never broken
FRAME = 3  # letters that a column takes beside its text
AGREEMENT_WORDS = {"equal": "equal", "close": "close", "differs": "differ"}


def cell(text: object) -> str:
    """Return a text in which neither rich nor the terminal finds a command."""
    return escape(printable(str(text)))


def show(report: StudyReport) -> None:
    """Print every table of a study, then the trials that failed or diverged, and the files."""
    for table in report.own_tables:
        show_sheet(table.sheet)
    if report.variance_sheet:
        show_sheet(report.variance_sheet)
    if report.findings:
        summary = ", ".join(f"{number} {words}" for words, number in counted(report.findings).items())
        say(f"claims at this scale: {summary} (claims.csv; report --check prints them)")
    if report.comparisons:
        summary = ", ".join(
            f"{number} {words}" for words, number in counted(report.comparisons, COMPARED_WORDS).items()
        )
        say(f"comparisons with the baseline: {summary} (comparisons.csv)")
    if report.ranks:
        say(f"ranks: {report.ranks.sentence} (ranks.csv)")
        if report.ranks.in_practice:
            say(f"ranks: {report.ranks.in_practice}")
    for trouble in troubles(report.study, report.trials):
        trace = trouble.example.path / "traceback.txt"
        say(trouble.sentence + (f" ({trace})" if trace.is_file() else ""))
    for line in [*report.remarks, *report.files]:
        say(line)
    if report.study.variant:
        what = "search" if report.study.home == "searches" else "study"
        say(f"these are of a variant of the {what}; the whole {what}'s go to {report.files[0].parents[1]}")


def show_sheet(sheet: Sheet) -> None:
    """Print a table, its cells in several lines, and columns for which the screen has no room as another table."""
    say(f"\n{sheet.caption}")
    rows, columns = _filled(sheet)
    if gaps := len(sheet.rows) - len(rows) + len(sheet.heads) - len(columns):
        say(f"without any number, and left out here: {gaps} of the rows and columns")
    console, numeric = Console(), sheet.numeric
    heads = [cell(head) for head in sheet.heads]
    texts = [list(map(_broken, row)) for row in sheet.texts(_bold, cell)]
    widths = [max(map(_width, column)) for column in zip(heads, *texts, strict=True)]
    for part in _parts(columns, _labels(sheet), widths, console.width):
        table = Table(show_lines=True)
        for column in part:
            side: Literal["right", "left"] = "right" if numeric[column] else "left"
            table.add_column(heads[column], justify=side, overflow="fold", min_width=min(widths[column], LONGEST))
        for row in rows:
            table.add_row(*(texts[row][column] for column in part))
        console.print(table)
    for line in sheet.remarks:
        say(line)


def _labels(sheet: Sheet) -> list[int]:
    """Return the columns that describe the rows."""
    cells = enumerate(zip(*sheet.rows, strict=True))
    return [i for i, column in cells if any(isinstance(c, str) and c not in WORDS for c in column)]


def _filled(sheet: Sheet) -> tuple[list[int], list[int]]:
    """Return the rows and the columns that have something to show; all, if none has."""
    labels = _labels(sheet)
    empty = [[column not in labels and text == NOTHING for column, text in enumerate(row)] for row in sheet.rows]
    rows = [i for i, row in enumerate(empty) if sum(row) < len(row) - len(labels)]
    columns = [i for i, column in enumerate(zip(*empty, strict=True)) if not all(column)]
    return (rows, columns) if rows else (list(range(len(empty))), list(range(len(sheet.heads))))


def _parts(columns: Sequence[int], labels: Sequence[int], widths: Sequence[int], room: int) -> list[list[int]]:
    """Split columns into tables that fit, each with those that describe the rows; room: letters of a line."""
    named = [column for column in columns if column in labels]
    parts, used = [list(named)], FRAME + sum(FRAME + widths[column] for column in named)
    left = room - used
    for column in columns:
        if column in labels:
            continue
        left -= FRAME + widths[column]
        if left < 0 and len(parts[-1]) > len(named):
            parts.append(list(named))
            left = room - used - FRAME - widths[column]
        parts[-1].append(column)
    return parts


def _width(text: str) -> int:
    """Return the letters of the longest word of a text, without markup."""
    return max((len(word) for word in Text.from_markup(text).plain.split()), default=0)


def _bold(entry: Entry) -> str:
    return cell(entry.text("\n±")).join(("[bold]", "[/bold]") if entry.best else ("", ""))


def _broken(text: str) -> str:
    """Return a cell in several lines, as narrow as possible."""
    return text.replace(" [", "\n[").replace(" (", "\n(")


def show_check(report: StudyReport, store: Store) -> "pd.DataFrame | None":
    """Print, and write to check.csv, how the cells compare with the paper's, if it has any; then print every claim."""
    study, frame = report.study, None
    title = f"{study.study.title}{note(study)}"
    if study.scale != "paper":
        say(f"{title}: the paper's numbers are for scale paper, so cells are not compared with them here")
    elif study.study.reference is None:
        say(f"{title}: the paper gives no numbers for this study")
    else:
        frame = parity(study, report.tables)
        write_text(folder_of(study, store) / "check.csv", frame.to_csv(index=False))
        show_parity(title, frame)
    if report.findings:
        say(f"\n{title}: claims at this scale (95 % intervals; q: over all claims of the study)")
    judged = [finding for finding in report.findings if finding.verdict != "no data"]
    for finding in judged:
        at = f" [{finding.at}]" if finding.at else ""
        remarks = f" ({'; '.join(finding.remarks)})" if finding.remarks else ""
        say(f"{finding.decision:7}  {finding.says}{at}: {finding.evidence}{remarks}")
    if left := len(report.findings) - len(judged):
        say(f"{left} {'claims have' if left > 1 else 'claim has'} no data yet (claims.csv lists them)")
    return frame


def show_parity(title: str, frame: "pd.DataFrame") -> None:
    """Print every cell that the paper has a number for, then how many of each verdict there are."""
    say(f"\n{title}: beside the paper")
    table = Table("table", "cell", "ours", "paper", "difference", "gain, ours", "gain, paper", "verdict", "remark")
    for _, row in frame.iterrows():
        interval = f"{_number(row.gain)} [{_number(row.gain_low95)}, {_number(row.gain_high95)}]"
        numbers = map(_number, (row.ours, row.paper, row.difference))
        gains = (interval if row.notna().gain else "", _number(row.paper_gain))
        remark = str(row.remark) if row.notna().remark else ""
        table.add_row(cell(row.table), cell(row["cell"]), *numbers, *gains, row.verdict, cell(remark))
    Console().print(table)
    counts = ", ".join(f"{(frame.verdict == verdict).sum()} {verdict}" for verdict in VERDICTS)
    guessed = frame.remark.fillna("").str.startswith("setting guessed").sum()
    say(
        f"{len(frame)} cells, tolerance {', '.join(f'{t:g}' for t in sorted(set(frame.tolerance)))}: {counts}"
        + (f"; {guessed} have a guessed setting" if guessed else "")
    )
    run_here = frame[frame.verdict.isin(["agrees", "differs"])]
    both = run_here[run_here.gain.notna() & run_here.paper_gain.notna() & (run_here.paper_gain != 0)]
    if len(both):
        same = (both.gain.astype(float) * both.paper_gain.astype(float) > 0).sum()
        say(f"gains over the baseline: {same} of {len(both)} have the paper's sign")


def show_comparison(report: StudyReport, store: Store, published: Trials) -> "pd.DataFrame":
    """Print, and write to compare.csv, how well trials agree with those of another folder; then print the counts."""
    study = report.study
    frame = compared(study, report.trials, published)
    write_text(folder_of(study, store) / "compare.csv", frame.to_csv(index=False))
    say(f"\n{study.study.title}{note(study)}: beside the other folder")
    if not len(frame):
        say("no trial is in both folders")
        return frame
    table = Table(*map(cell, heads([*study.axes, "seed"])), "ours", "other", "apart", "at most", "verdict")
    for row in frame.itertuples(index=False):
        table.add_row(*(_number(value) if isinstance(value, float) else cell(value) for value in row))
    Console().print(table)
    say(f"{len(frame)} trials in both folders: {counted_verdicts(list(frame.verdict))} ({RULE})")
    return frame


def show_differences(study: ScaledStudy, found: Differences, folders: Sequence[Path], tolerance: float | None) -> None:
    """Print how a study differs between two folders: cells, trials that one lacks, environments; then the counts."""
    say(f"\n{study.study.title}{note(study)}: {folders[0]} beside {folders[1]}")
    for folder, names in zip(folders, found.only, strict=True):
        if names:
            say(f"only in {folder}, and left out ({len(names)}): {'; '.join(names)}")
    if len(found.cells):
        table = Table("table", "cell", "value", "first", "second", "apart")
        for row in found.cells.itertuples(index=False):
            numbers = (_number(row.first), _number(row.second), _number(row.difference))
            table.add_row(cell(row.table), cell(row.cell), cell(row.value), *(text or "none" for text in numbers))
        Console().print(table)
    for name, (first, second) in found.environments.items():
        say(f"{name}: {first} | {second}")
    if not found.environments and found.both:
        say("environments: the same")
    say(f"{found.both} trials in both folders, {found.equal} of them equal in every round")
    most = found.cells["difference"].abs().max()
    apart = f", at most {most:.4g} apart" if len(found.cells) and most == most else ""
    allowed = "" if tolerance is None else f"; {found.beyond(tolerance)} beyond the tolerance of {tolerance:g}"
    say(f"{len(found.cells)} of {found.shared} cells differ beyond rounding{apart}{allowed}")


def counted_verdicts(verdicts: Sequence[str]) -> str:
    """Return the number of each verdict, in words."""
    return ", ".join(f"{verdicts.count(verdict)} {words}" for verdict, words in AGREEMENT_WORDS.items())


def _number(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.4g}"


def show_ranks(ranks: Ranks, title: str) -> None:
    """Print ranks as a table, their interpretation, and what is left out."""
    rows: list[list[str | Entry]] = [
        [
            Entry(str(number)),
            name,
            Entry(f"{ranks.mean.ranks[number - 1]:.2f}"),
            Entry(str(ranks.missing[number - 1])),
            Entry(str(ranks.diverged[number - 1])),
        ]
        for number, name in enumerate(ranks.names, start=1)
    ]
    heads = ["", "name", "mean rank", "missing", "diverged"]
    show_sheet(Sheet(heads, rows, f"{title}: ranks over {ranks.cells} cells"))
    say(f"{ranks.sentence}; within {ranks.margin:g} points two are no different")
    if ranks.left_out:
        say(f"left out, not in all studies or without results: {', '.join(ranks.left_out)}")
