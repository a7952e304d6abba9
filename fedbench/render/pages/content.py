"""The content of a study's page as plain data, without HTML."""

import base64
import math
import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedbench.analysis.claims import Finding, counted
from fedbench.analysis.comparisons import COMPARED_WORDS
from fedbench.analysis.comparisons import in_words as comparison_in_words
from fedbench.analysis.parity import parity
from fedbench.analysis.statistics.verdicts import LEVEL
from fedbench.analysis.tables import Tables
from fedbench.analysis.trials import environments
from fedbench.base.files import RESULTS
from fedbench.base.settings import in_words
from fedbench.metrics import METRICS
from fedbench.render.pages.charts import (
    Curve,
    Dot,
    DotChart,
    Interval,
    LineChart,
    Panel,
    dot_chart,
    interval,
    intervals,
    line_charts,
    parity_chart,
)
from fedbench.render.pages.figures import PageFigure, page_figures, pictures
from fedbench.render.pages.ranks import PageRanks, page_ranks
from fedbench.render.pages.tables import PageTable, page_table
from fedbench.render.pages.trials import PageTrial, page_trials
from fedbench.render.sheets import Entry, Sheet
from fedbench.render.study import StudyReport
from fedbench.render.study_sheets import note
from fedbench.render.style import slots
from fedbench.render.variance_plot import VARIANCE_STEM
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import USUAL_MOST, Label, heads, named, text_label
from fedbench.specs.parts import METHOD

COST_LABELS = {"server_seconds": "server seconds a round", "megabytes": "MB a round"}
POINTS = 120  # of a line
MOST_LINES = 16  # in the chart


@dataclass(frozen=True)
class Now:
    """A trial that is running: its name, how many rounds of all are done, and the accuracy (%) by scored round."""

    hash: str
    name: str
    round: int
    rounds: int
    curve: Mapping[int, float]

    @property
    def scored(self) -> int | None:
        """Return the last round that was scored; None if there is none."""
        return max((round_ for round_ in self.curve if round_ <= self.round), default=None)

    @property
    def score(self) -> str:
        """Return the accuracy of that round as text."""
        return "-" if self.scored is None else f"{self.curve[self.scored]:.2f}"


@dataclass(frozen=True)
class Live:
    """The progress of a study that is running or was stopped.

    share: of its rounds that are done; counts: how many trials have ended, run and wait, in words; left: the time that
    is left, in words; now: the trials that are running.
    """

    running: bool
    share: float
    counts: str
    left: str
    now: Sequence[Now]

    @property
    def charts(self) -> list[LineChart]:
        """Return a chart of the accuracy so far of the trials that are running."""
        curves = [Curve(one.name, slot, _points(one)) for slot, one in enumerate(self.now[:MOST_LINES])]
        return line_charts([Panel("so far", ("round", "test accuracy (%)"), curves, whole=True)], points=POINTS)

    @property
    def legend(self) -> list[tuple[str, int]]:
        """Return the name and the slot of every line of the chart."""
        return [(one.name, slot) for slot, one in enumerate(self.now[:MOST_LINES])]


def _points(trial: Now) -> list[tuple[float, float, float]]:
    return [(float(round_), value, 0.0) for round_, value in sorted(trial.curve.items())]


@dataclass(frozen=True)
class PageVariance:
    """Variance components as texts.

    numeric: whether a column has numbers; remarks: the sentences, and why a row has no components; picture: the bars,
    as a data address, or an empty text.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    remarks: Sequence[str]
    picture: str


@dataclass(frozen=True)
class PageClaim:
    """A finding, and its interval as it is drawn; None without data.

    looks: of a plan with several, the number of seeds and the interval of each that was taken.
    """

    verdict: str
    says: str
    at: str
    evidence: str
    interval: Interval | None
    looks: Sequence[tuple[int, Interval]] = ()


@dataclass(frozen=True)
class PageParity:
    """The paper's numbers of one table against ours: how many of each verdict, and the chart."""

    table: str
    counts: Mapping[str, int]
    tolerance: float
    chart: DotChart | None


@dataclass(frozen=True)
class PageTuning:
    """How the methods of a search were tuned: warnings, the table, and its figures."""

    warnings: Sequence[str]
    caption: str
    remarks: Sequence[str]
    heads: Sequence[str]
    numeric: Sequence[bool]
    rows: Sequence[Sequence[str]]
    figures: Sequence[PageFigure]


@dataclass(frozen=True)
class StudyPage:
    """The content of a study's page from top to bottom.

    asked: what the study's file and the options say, by heading; up: the relative address of the index; live: the
    progress while the study is running.
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
    comparisons: Sequence[PageClaim]
    compared: Mapping[str, int]
    plan: str
    parity: Sequence[PageParity]
    ranks: PageRanks | None
    variance: PageVariance | None
    tuning: PageTuning | None
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
    report: StudyReport, folder: Path, out: Path = RESULTS, *, up: str = "", live: Live | None = None
) -> StudyPage:
    """Return the content of the page of a report.

    folder: of the report; out: the results folder, as the command names it; up: the relative address of the index;
    live: the progress of a study that is running, without pictures, which are of an earlier report.
    """
    study = report.study
    trials, hidden = page_trials(study, report.trials, folder, {one.hash for one in live.now} if live else set())
    costs, legend = _costs(study, report.tables)
    return StudyPage(
        name=study.name,
        scale=study.scale,
        title=study.study.title,
        note=note(study).strip(),
        shows=study.study.shows,
        asked=_asked(study),
        counts=_counts(report),
        axes=heads(study.axes),
        tables=[page_table(table, report.remarks) for table in report.all_tables],
        figures=page_figures(study, report.trials, folder, pictures=live is None),
        claims=page_claims(report.findings),
        verdicts=counted(report.findings),
        comparisons=page_claims(report.comparisons, comparison_in_words),
        compared=counted(report.comparisons, COMPARED_WORDS),
        plan=study.plan.text if study.plan.decides else "",
        parity=_parity(study, report.tables),
        ranks=page_ranks(report.ranks),
        variance=_variance(report.variance_sheet, folder, pictures=live is None),
        tuning=_tuning(report),
        costs=costs,
        cost_legend=legend,
        trials=trials,
        hidden_trials=hidden,
        failures=[trial for trial in trials if trial.status in ("failed", "diverged")],
        environments=environments(report.trials),
        mixed=report.remarks,
        command=command(study, out),
        files=[path.name for path in report.files],
        up=up,
        live=live,
    )


def _asked(study: ScaledStudy) -> dict[str, list[str]]:
    """Return what the study's file and the options say, by heading, without empty headings."""
    spec = study.study
    axes = [f"{axis}: {', '.join(map(text_label, labels))}" for axis, labels in study.axes.items()]
    found = {
        "In the paper": list(spec.paper),
        "Axes": axes,
        "Seeds": [study.plan.text if study.plan.decides else ", ".join(map(str, study.cells[0].trials))],
        "Baseline": [f"{axis} = {text_label(label)}" for axis, label in spec.baseline.items()],
        "Base settings": in_words(study.base),
        "Changed by --set": in_words(study.changed),
        "Picked": list(study.picked),
    }
    return {head: lines for head, lines in found.items() if lines}


def _counts(report: StudyReport) -> dict[str, int]:
    """Return the number of trials by status."""
    ended = Counter(trial.status for trial in report.trials.values())
    left = len(report.study.trials) - len(report.trials)
    counts = {"done": ended["done"], "diverged": ended["diverged"], "failed": ended["failed"], "not run": left}
    return {word: number for word, number in counts.items() if number or word == "done"}


def page_claims(
    findings: Sequence[Finding], word: Callable[[Finding], str] = lambda finding: finding.decision
) -> list[PageClaim]:
    """Return the findings, each with its interval on a scale of its own; word: turns a verdict into words."""
    return [PageClaim(word(each), each.says, each.at, each.in_words, _drawn(each), _looks(each)) for each in findings]


def _drawn(finding: Finding) -> Interval | None:
    spread = finding.spread
    if spread.mean is None:
        return None
    return interval(spread.mean, *_ends(spread.low, spread.high), _bounds(finding))


def _looks(finding: Finding) -> list[tuple[int, Interval]]:
    """Return the number of seeds and the interval of each look of a plan with several, all on one scale."""
    taken = [(look, look.mean) for look in finding.looks if look.mean is not None and look.level < LEVEL]
    rows = [(mean, *_ends(look.low, look.high)) for look, mean in taken]
    seeds = [look.seeds for look, _ in taken]
    return list(zip(seeds, intervals(rows, _bounds(finding)), strict=True)) if rows else []


def _ends(low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Return the bounds of an interval, None for both where one of them is open."""
    return (low, high) if low is not None and high is not None else (None, None)


def _bounds(finding: Finding) -> list[float]:
    """Return what an interval is compared with beside zero: the claim's bounds and, of looks, the margin."""
    bounds = [bound for bound in finding.bounds if math.isfinite(bound)]
    several = any(look.level < LEVEL for look in finding.looks)
    return [*bounds, -finding.margin, finding.margin] if finding.margin and several else bounds


def _tuning(report: StudyReport) -> PageTuning | None:
    """Return the part of a page that only the result of a search has."""
    if report.tuning is None:
        return None
    shown, files = report.tuning.sheet, report.tuning.files
    rows = [[cell.text() if isinstance(cell, Entry) else cell for cell in row] for row in shown.rows]
    figures = pictures([path for path in files if path.suffix == ".png"])
    return PageTuning(report.tuning.warnings, shown.caption, shown.remarks, shown.heads, shown.numeric, rows, figures)


def _parity(study: ScaledStudy, tables: Tables) -> list[PageParity]:
    """Return a chart of our numbers against the paper's for every table in which both have some."""
    if study.study.reference is None or study.scale != "paper":
        return []
    made, frame = [], parity(study, tables)
    for name, rows in frame.groupby("table", sort=False):
        tolerance = float(rows["tolerance"].iloc[0])
        there = rows[rows["ours"].notna()]
        if there.empty:
            continue
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
    """Return charts of accuracy against the cost of a round, and their legend.

    They have a dot for every cell of the first table that shows accuracies.
    """
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
    """Return the command that runs the study with the same options."""
    module = "fedbench.search" if study.home == "searches" else "fedbench.study"
    words = ["python", "-m", module, study.source or study.name, "--scale", study.scale]
    for change in in_words(study.changed):
        words += ["--set", change]
    for picked in study.picked:
        key, _, values = picked.partition("=")
        labels = [text_label(label) for label in study.axes.get(key, ())]
        each = any("," in label for label in labels)  # a comma would part it
        only = [f"{key}={label}" for label in labels] if each else [picked]
        words += ["--seeds", values] if key == "seeds" else [word for one in only for word in ("--only", one)]
    if study.plan.decides:
        most = study.plan.looks[-1].seeds
        words += ["--decide", *(["--most-seeds", str(most)] if most != USUAL_MOST else [])]
    for module in study.modules:
        words += ["--import", module]
    return shlex.join([*words, *(["--out", os.fspath(out)] if out != RESULTS else [])])


def _variance(sheet: Sheet | None, folder: Path, *, pictures: bool) -> PageVariance | None:
    """Return the variance components of a page; None if the study has none. pictures: whether to show the plot."""
    if sheet is None:
        return None
    file = folder / f"{VARIANCE_STEM}.png"
    picture = ""
    if pictures and file.is_file():
        picture = f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"
    texts = sheet.texts(Entry.text)
    return PageVariance(sheet.caption, sheet.heads, texts, sheet.numeric, sheet.remarks, picture)
