"""Tables and plots of a study again, from the store alone: python -m fedbench.report fixed_gamma."""

from collections.abc import Sequence

import pandas as pd
from rich.console import Console
from rich.table import Table

from fedbench.base.errors import UserError
from fedbench.base.files import write_bytes
from fedbench.base.plugins import import_modules
from fedbench.reports.parity import VERDICTS, parity
from fedbench.reports.report import Report, folder_of, make_report, note
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import Store
from fedbench.study import show, warn
from fedbench.terminal.command import DONE, Parser, run
from fedbench.terminal.options import add_study_options, chosen_studies


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    parser = Parser(prog="python -m fedbench.report", description="Make a study's tables and plots from stored trials.")
    parser.add_argument("study", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file")
    parser.add_argument("--check", action="store_true", help="hold cells and claims against the paper's")
    add_study_options(parser)
    options = parser.parse_args(arguments)
    import_modules(options.modules)
    studies, store = chosen_studies(options), Store(options.out)
    if not store.trials.is_dir():
        raise UserError(f"--out {options.out}: holds no results; run python -m fedbench.study {options.study} first")
    for study in studies:
        report = make_report(study, store)
        warn(store)
        show(study, report)
        if options.check:
            check(study, report, store)
        if missing := len(study.trials) - len(report.trials):
            print(f"{missing} of {len(study.trials)} trials have not been run")
    return DONE


def check(study: ScaledStudy, report: Report, store: Store) -> None:
    """Print, and write to check.csv, how the cells compare with the paper's; then print every claim."""
    title = f"{study.study.title}{note(study)}"
    if study.scale != "paper":
        print(f"{title}: the paper's numbers are for scale paper, so cells are not compared with them here")
    elif study.study.reference is None:
        print(f"{title}: the paper gives no numbers for this study")
    else:
        frame = parity(study, report.cells)
        write_bytes(folder_of(study, store) / "check.csv", frame.to_csv(index=False).encode())
        show_parity(title, frame)
    if report.findings:
        print(f"\n{title}: claims at this scale (95 % intervals, not corrected for their number)")
    for found in report.findings:
        at = f" [{found.at}]" if found.at else ""
        guessed = f" (setting guessed: {', '.join(found.guessed)})" if found.guessed else ""
        print(f"{found.verdict:12}  {found.says}{at}: {found.evidence}{guessed}")


def show_parity(title: str, frame: pd.DataFrame) -> None:
    """Print every cell that the paper has a number for, then how many of each verdict there are."""
    table = Table("table", "cell", "ours", "paper", "difference", "gain, ours", "gain, paper", "verdict", "remark")
    table.title, table.title_justify = f"{title}: beside the paper", "left"
    for _, row in frame.iterrows():
        interval = f"{_number(row.gain)} [{_number(row.gain_low95)}, {_number(row.gain_high95)}]"
        numbers = map(_number, (row.ours, row.paper, row.difference))
        gains = (interval if pd.notna(row.gain) else "", _number(row.paper_gain))
        remark = "" if pd.isna(row.remark) else str(row.remark)
        table.add_row(row.table, row["cell"].replace("[", "\\["), *numbers, *gains, row.verdict, remark)
    Console().print(table)
    counts = ", ".join(f"{(frame.verdict == verdict).sum()} {verdict}" for verdict in VERDICTS)
    guessed = frame.remark.fillna("").str.startswith("setting guessed").sum()
    print(
        f"{len(frame)} cells, tolerance {', '.join(f'{t:g}' for t in sorted(set(frame.tolerance)))}: {counts}"
        + (f"; {guessed} have a guessed setting" if guessed else "")
    )
    run_here = frame[frame.verdict.isin(["agrees", "differs"])]
    both = run_here[run_here.gain.notna() & run_here.paper_gain.notna() & (run_here.paper_gain != 0)]
    if len(both):
        same = (both.gain.astype(float) * both.paper_gain.astype(float) > 0).sum()
        print(f"gains over the baseline: {same} of {len(both)} have the paper's sign")


def _number(value: float | None) -> str:
    return "" if value is None or pd.isna(value) else f"{value:.4g}"


if __name__ == "__main__":
    run(main)
