"""Everything that a study's page shows, as plain data made of its report: no HTML, no browser."""

import math
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedbench.analysis.claims import Finding, counted
from fedbench.analysis.clients import TABLE
from fedbench.analysis.parity import parity
from fedbench.analysis.tables import Tables
from fedbench.analysis.trials import environments, mixed
from fedbench.base.files import RESULTS
from fedbench.base.settings import in_words
from fedbench.metrics import METRICS
from fedbench.render.pages.charts import Dot, DotChart, Interval, dot_chart, intervals, parity_chart
from fedbench.render.pages.figures import PageFigure, page_figures
from fedbench.render.pages.live import Live
from fedbench.render.pages.ranks import PageRanks, page_ranks
from fedbench.render.pages.tables import PageTable, page_table
from fedbench.render.pages.trials import PageTrial, page_trials
from fedbench.render.pages.variance import PageVariance, page_variance
from fedbench.render.report import Report
from fedbench.render.shown import note
from fedbench.render.style import slots
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import Label, heads, named, text_label
from fedbench.specs.parts import METHOD

COST_LABELS = {"server_seconds": "server seconds a round", "megabytes": "MB a round"}


@dataclass(frozen=True)
class PageClaim:
    """A finding, and its interval as it is drawn; none without data."""

    verdict: str
    says: str
    at: str
    evidence: str
    interval: Interval | None


@dataclass(frozen=True)
class PageParity:
    """The paper's numbers of one table against ours: how many of each verdict, and the chart."""

    table: str
    counts: Mapping[str, int]
    tolerance: float
    chart: DotChart | None


@dataclass(frozen=True)
class StudyPage:
    """A study's page from top to bottom.

    asked: what was asked, by heading; up: where the index is; live: how far it is, while it runs.
    """

    name: str
    scale: str
    title: str
    note: str
    shows: str
    asked: Mapping[str, Sequence[str]]
    counts: Mapping[str, int]
    axes: Sequence[str]
    tables: Sequence[PageTable]
    figures: Sequence[PageFigure]
    claims: Sequence[PageClaim]
    verdicts: Mapping[str, int]
    parity: Sequence[PageParity]
    no_parity: str
    ranks: PageRanks | None
    variance: PageVariance | None
    costs: Sequence[DotChart]
    cost_legend: Sequence[tuple[str, int]]
    trials: Sequence[PageTrial]
    hidden_trials: int
    failures: Sequence[PageTrial]
    environments: Sequence[str]
    mixed: Sequence[str]
    command: str
    files: Sequence[str]
    up: str = ""
    live: Live | None = None


def study_page(
    study: ScaledStudy, report: Report, folder: Path, out: Path = RESULTS, *, up: str = "", live: Live | None = None
) -> StudyPage:
    """The page of a study whose report is in a folder; out: the result folder, as the command names it.

    up: where the index is; live: how far it is, while it runs: then pictures of an earlier report are left out.
    """
    trials, hidden = page_trials(study, report.trials, folder, {one.hash for one in live.now} if live else set())
    costs, legend = _costs(study, report.tables)
    remarks = mixed(report.trials)
    return StudyPage(
        name=study.name,
        scale=study.scale,
        title=study.study.title,
        note=note(study).strip(),
        shows=study.study.shows,
        asked=_asked(study),
        counts=_counts(study, report),
        axes=heads(study.axes),
        tables=_tables(study, report, remarks),
        figures=page_figures(study, report.trials, folder, pictures=live is None),
        claims=page_claims(report.findings),
        verdicts=counted(report.findings),
        parity=_parity(study, report.tables),
        no_parity=_no_parity(study),
        ranks=page_ranks(report.ranks),
        variance=page_variance(study, report.variance, folder, pictures=live is None),
        costs=costs,
        cost_legend=legend,
        trials=trials,
        hidden_trials=hidden,
        failures=[trial for trial in trials if trial.status in ("failed", "diverged")],
        environments=environments(report.trials),
        mixed=remarks,
        command=command(study, out),
        files=[path.name for path in report.files],
        up=up,
        live=live,
    )


def _tables(study: ScaledStudy, report: Report, remarks: Sequence[str]) -> list[PageTable]:
    """The study's own tables and, where it has none of that, one of the accuracy of clients."""
    tables = [page_table(study, name, filled, remarks) for name, filled in report.tables.items() if filled]
    clients = report.clients
    return [*tables, page_table(clients.study, TABLE, clients.filled, remarks)] if clients else tables


def _asked(study: ScaledStudy) -> dict[str, list[str]]:
    """What was asked, without headings that have nothing below them."""
    spec = study.study
    axes = [f"{axis}: {', '.join(map(text_label, labels))}" for axis, labels in study.axes.items()]
    found = {
        "In the paper": list(spec.paper),
        "Axes": axes,
        "Seeds": [", ".join(map(str, study.cells[0].trials))],
        "Baseline": [f"{axis} = {text_label(label)}" for axis, label in spec.baseline.items()],
        "Base settings": in_words(study.base),
        "Changed by --set": in_words(study.changed),
        "Picked": list(study.picked),
    }
    return {head: lines for head, lines in found.items() if lines}


def _counts(study: ScaledStudy, report: Report) -> dict[str, int]:
    """How many trials there are of each status."""
    ended = Counter(trial.status for trial in report.trials.values())
    left = len(study.trials) - len(report.trials)
    counts = {"done": ended["done"], "diverged": ended["diverged"], "failed": ended["failed"], "not run": left}
    return {word: number for word, number in counts.items() if number or word == "done"}


def page_claims(findings: Sequence[Finding]) -> list[PageClaim]:
    """The findings, those of one claim on one scale."""
    drawn: dict[int, Interval] = {}
    for says in dict.fromkeys(finding.says for finding in findings):
        rows = {}
        for number, found in enumerate(findings):
            if found.says == says and found.spread.mean is not None:
                bounds = [bound for bound in found.bounds if math.isfinite(bound)]
                low, high = found.spread.low, found.spread.high
                ends = (low, high) if low is not None and high is not None else (None, None)  # one may be open
                rows[number] = (found.spread.mean, *ends, bounds)
        drawn |= intervals(rows)
    return [
        PageClaim(f.decision, f.says, f.at, "; ".join([f.evidence, *f.remarks]), drawn.get(number))
        for number, f in enumerate(findings)
    ]


def _no_parity(study: ScaledStudy) -> str:
    """Why cells are not held against the paper's, if they are not."""
    if study.study.reference is None:
        return "The paper gives no numbers for this study."
    return "" if study.scale == "paper" else "The paper's numbers are for scale paper: cells are not compared here."


def _parity(study: ScaledStudy, tables: Tables) -> list[PageParity]:
    """Ours against the paper's, a chart for every table that the paper has numbers of."""
    if _no_parity(study):
        return []
    made, frame = [], parity(study, tables)
    for name, rows in frame.groupby("table", sort=False):
        tolerance = float(rows["tolerance"].iloc[0])
        there = rows[rows["ours"].notna()]
        dots = [
            Dot(
                float(row.paper),
                float(row.ours),
                str(row.verdict),
                {"agrees": 1, "differs": 2}.get(str(row.verdict), 7),
                f"{row.cell}: ours {row.ours:.4g}, the paper {row.paper:.4g} ({row.verdict})",
            )
            for row in there.itertuples()
        ]
        counts = {str(verdict): int(n) for verdict, n in rows["verdict"].value_counts().items()}
        chart = parity_chart(str(name), ("the paper", "ours"), dots, tolerance)
        made.append(PageParity(str(name), counts, tolerance, chart))
    return made


def _costs(study: ScaledStudy, tables: Tables) -> tuple[list[DotChart], list[tuple[str, int]]]:
    """Accuracy against what a round costs, a dot for every cell of the first table that has accuracies."""
    axis = METHOD if METHOD in study.axes else next(iter(study.study.baseline), next(iter(study.axes)))
    names = [name for name, table in study.study.tables.items() if table.metrics[0] == "test_accuracy"]
    plain = [name for name in names if study.study.tables[name].show == "value" and tables[name]]
    if not plain:
        return [], []
    looks = slots(list(study.axes[axis]))
    charts, used = [], dict[str, int]()
    for cost, words in COST_LABELS.items():
        dots = []
        for place in tables[plain[0]]:
            score, price = place.numbers["mean"], place.numbers[cost]
            if score is None or price is None or place.metric != "test_accuracy":
                continue
            label: Label = place.cells[0].labels[axis]
            used[named(axis, label)] = looks[label]
            text = f"{', '.join(map(text_label, place.key))}: {score:.2f} % at {price:.4g}"
            dots.append(Dot(price, score, named(axis, label), looks[label], text))
        charts.append(dot_chart(words, (words, METRICS.get("test_accuracy").label), dots))
    return [chart for chart in charts if chart], list(used.items())


def command(study: ScaledStudy, out: Path) -> str:
    """The command that makes the study again."""
    words = ["python", "-m", "fedbench.study", study.source or study.name, "--scale", study.scale]
    for change in in_words(study.changed):
        words += ["--set", change]
    for picked in study.picked:
        key, _, values = picked.partition("=")
        labels = [text_label(label) for label in study.axes.get(key, ())]
        each = any("," in label for label in labels)  # a comma would part it
        only = [f"{key}={label}" for label in labels] if each else [picked]
        words += ["--seeds", values] if key == "seeds" else [word for one in only for word in ("--only", one)]
    for module in study.modules:
        words += ["--import", module]
    return shlex.join([*words, *(["--out", os.fspath(out)] if out != RESULTS else [])])
