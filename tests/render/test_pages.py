"""What a study's page holds, without a browser."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fedbench.analysis.claims import Finding, check_claims
from fedbench.analysis.statistics.spread import spread
from fedbench.analysis.tables import fill_tables
from fedbench.analysis.trials import stored_trials
from fedbench.render.pages.charts import (
    BOTTOM,
    HEIGHT,
    TOP,
    Curve,
    Dot,
    Panel,
    dot_chart,
    interval,
    line_charts,
    parity_chart,
    sparkline,
)
from fedbench.render.pages.content import StudyPage, command, page_claims, study_page
from fedbench.render.pages.render import MOST_BYTES, html
from fedbench.render.pages.tables import PageCell
from fedbench.render.report import make_report
from fedbench.render.study import StudyReport
from fedbench.render.style import DASHES, KINDS, KNOWN, MARKERS, SHAPES, SLOTS, STROKES, colour_of, number_of, slots
from fedbench.specs.consistency import known_labels
from fedbench.specs.expand import ScaledStudy, expand, load_study, study_files
from fedbench.store.store import Store
from tests.analysis.helpers import MINE, fill

REST = """
seeds: [8, 9, 10]
tables: {accuracy: {rows: [data.alpha], columns: [method.gamma], best: row}}
plots: {curves: {kind: curves, colour: method.gamma, panels: [data.alpha]}}
claims: [{says: less helps, check: beats, point: {method.gamma: 0.9}}]
scales: {quick: {}}
"""


def mine(folder: Path, text: str = MINE + REST, **options: Any) -> ScaledStudy:
    folder.mkdir(exist_ok=True)
    (folder / "mine.yaml").write_text(text)
    given: dict[str, Any] = {"changes": {}, "only": {}, "seeds": None, **options}
    return expand(str(folder / "mine.yaml"), "quick", **given)


def accuracy(labels: Any, seed: int) -> float | str | None:
    if labels["data.alpha"] == 1 and labels["method.gamma"] == 0.8:
        return {8: "failed", 9: "diverged", 10: None}[seed]
    return 0.5 + 0.001 * seed + (0.1 if labels["method.gamma"] == 0.9 else 0.0)


@pytest.fixture
def page(tmp_path: Path) -> StudyPage:
    study, store = mine(tmp_path), Store(tmp_path)
    fill(store, study, accuracy)
    report = make_report(study, store)
    return study_page(report, report.files[0].parent, tmp_path)


def test_a_cell_has_all_its_views(page: StudyPage) -> None:
    (table,) = page.tables
    assert list(table.views) == ["mean", "interval", "difference"]
    first = table.rows[0][2]
    assert isinstance(first, PageCell)
    assert first.texts == {
        "mean": "60.90 ± 0.10",
        "interval": "60.90 [60.65, 61.15]",
        "difference": "+10.00 [+10.00, +10.00]",
    }
    assert first.numbers["difference"] == pytest.approx(10)
    assert first.best and first.heat == 1
    other = table.rows[0][1]
    assert isinstance(other, PageCell)
    assert other.heat == 0
    assert table.rows[1][3] in ("diverged", "failed")
    assert table.heads[-2:] == ["server s a round", "MB a round"]
    assert set(table.copies) == {"CSV", "Markdown", "LaTeX"}


def test_a_page_says_the_same_number_of_seeds_in_a_cell_as_the_table_in_markdown(tmp_path: Path) -> None:
    """Of all cells as soon as one lacks a seed."""
    for lost, counts in ((None, []), (9, ["3", "2", "3"] * 2)):
        study, store = mine(tmp_path / str(lost)), Store(tmp_path / str(lost))

        def score(labels: Any, seed: int, lost: int | None = lost) -> float | None:
            return None if (labels["method.gamma"], seed) == (0.9, lost) else 0.5 + 0.01 * seed

        fill(store, study, score)
        report = make_report(study, store)
        (table,) = study_page(report, report.files[0].parent, tmp_path).tables
        cells = [cell for row in table.rows for cell in row if isinstance(cell, PageCell)]
        for view in ("mean", "interval"):
            assert re.findall(r"\(n=(\d)\)", " ".join(cell.texts[view] for cell in cells)) == counts
        assert re.findall(r"\(n=(\d)\)", table.copies["Markdown"]) == counts


def test_trials_say_how_they_ended_and_what_differs(page: StudyPage) -> None:
    assert page.counts == {"done": 15, "diverged": 1, "failed": 1, "not run": 1}
    assert len(page.trials) == 18 and not page.hidden_trials
    assert [trial.status for trial in page.failures] == ["failed", "diverged"]
    assert {trial.reason for trial in page.failures} == {"why"}
    first = page.trials[0]
    assert first.differs == "data.alpha=100.0, method.gamma=1.0"
    assert first.score == "50.80"
    assert first.spark.startswith("M1.0,")
    assert first.files.startswith("../../../trials/")


def test_the_command_makes_it_again(tmp_path: Path) -> None:
    study = mine(tmp_path, changes={"rounds": 3}, only={"data.alpha": ["100"]}, seeds=[8, 9])
    assert command(study, Path("results")) == (
        f"python -m fedbench.study {tmp_path}/mine.yaml --scale quick --set rounds=3 --only data.alpha=100 --seeds 8,9"
    )
    assert command(study, Path("my out")).endswith("--out 'my out'")


EVIL = "<script>alert(1)</script>"
CODE = f"""
title: "{EVIL} [red]"
shows: "{EVIL}"
base: {{data.train_size: 200, data.test_size: 200, clients.count: 2, rounds: 2}}
grid:
  method:
    "{EVIL}": {{method.name: fedavg}}
    "[red]": {{method.name: fixed_gamma}}
    '" onload="alert(1)': {{method.name: fedprox}}
seeds: [8, 9]
baseline: {{method: "[red]"}}
tables: {{accuracy: {{rows: [method], columns: []}}}}
plots: {{curves: {{kind: curves, colour: method}}, sweep: {{kind: sweep, x: method}}}}
claims: [{{says: "{EVIL}", check: beats, point: {{method: "{EVIL}"}}}}]
scales: {{quick: {{}}}}
"""


def code_as_labels(folder: Path) -> Path:
    """The page of a study whose labels are code."""
    study, store = mine(folder, CODE), Store(folder)
    fill(store, study, lambda labels, seed: 0.5 if seed == 8 else "failed")
    return make_report(study, store).files[-1]


def test_labels_titles_and_reasons_are_escaped(tmp_path: Path) -> None:
    html = code_as_labels(tmp_path).read_text()
    assert "<script>alert" not in html
    assert html.count("<script>") == 1  # ours
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert '" onload="' not in html
    assert "[red]" in html


def test_a_page_asks_the_network_for_nothing_and_is_small(page: StudyPage) -> None:
    text = html("study.html", page=page)
    assert len(text.encode()) < MOST_BYTES
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", text)
    assert "default-src 'none'" in text


def test_rounds_that_were_not_scored_are_left_out_of_curves_and_sparklines(tmp_path: Path) -> None:
    study, store = mine(tmp_path, changes={"rounds": 12, "eval_every": 3}), Store(tmp_path)
    scored = {3: 0.31, 6: 0.36, 9: 0.39, 11: 0.41, 12: 0.42}
    lines = "".join(f"{t},{scored.get(t, '')},{1.5 if t in scored else ''}\n" for t in range(1, 13))
    fill(store, study, lambda labels, seed: 0.415, rounds=f"round,test_accuracy,test_loss\n{lines}")
    report = make_report(study, store)
    page = study_page(report, report.files[0].parent, tmp_path)
    for chart in page.figures[0].charts:
        for curve in chart.curves:
            assert re.findall(r"([\d.]+):([\d.]+)", curve.values)[::1] == [
                (str(t), f"{100 * accuracy:g}") for t, accuracy in scored.items()
            ]
    text = html("study.html", page=page)
    assert "nan" not in text.partition("</style>")[2].partition("<script>")[0]
    assert {trial.score for trial in page.trials} == {"41.50"}
    assert all(trial.spark.count(",") >= len(scored) for trial in page.trials)


def test_a_large_studys_page_keeps_within_3_megabytes(tmp_path: Path) -> None:
    study, store = expand("fixed_gamma", "paper", changes={}, only={}, seeds=None), Store(tmp_path)
    lines = "".join(f"{t},{0.1 + 0.003 * t + 1e-7 * t * t},1.5\n" for t in range(1, 201))
    fill(
        store,
        study,
        lambda labels, seed: 0.5 + 0.001 * seed,
        rounds=f"round,test_accuracy,test_loss\n{lines}",
    )
    trials = stored_trials(study, store)
    report = StudyReport(study, trials, fill_tables(study, trials), check_claims(study, trials))
    page = study_page(report, tmp_path, tmp_path)
    assert 200_000 < len(html("study.html", page=page).encode()) < MOST_BYTES
    assert {"paper", "distance"} <= set(page.tables[0].views)
    assert page.parity[0].chart and page.parity[0].chart.band
    assert sum(page.parity[0].counts.values()) == 108


def test_the_built_in_methods_all_look_different() -> None:
    looks = {(colour_of(slot), number_of(slot)) for slot in slots(KNOWN).values()}
    assert len(looks) == len(KNOWN) <= SLOTS


def test_a_method_looks_alike_wherever_it_stands_in_the_file() -> None:
    one, other = slots(["FedLAW", "mine", "FedAvg"]), slots(["FedAvg", "theirs", "mine", "FedProx", "FedLAW"])
    assert {name: other[name] for name in one} == dict(one)
    assert len(set(slots([f"own {number}" for number in range(40)]).values())) == 40


def test_own_methods_have_dashes_and_markers_of_their_own() -> None:
    found = slots(["FedAvg", "FedLAW", "FedProx", "FedDyn", "mine", "theirs", "third", "my other rule"])
    kinds = [number_of(slot) for slot in found.values()]
    assert len(set(kinds)) == len(kinds)
    assert min(kinds[4:]) >= KINDS, "no built-in method has one of these"
    assert all(
        number_of(slot) != number_of(KNOWN.index("FedAvg")) for slot in slots([f"own {n}" for n in range(60)]).values()
    )
    assert len(DASHES) == len(STROKES) == len(MARKERS) == len(SHAPES) == len(set(DASHES)) == len(set(MARKERS))


def test_labels_of_the_built_in_studies_are_known() -> None:
    labels = {label for name in study_files() for label in known_labels(load_study(name)[1]).get("method", [])}
    assert len(labels) > 50
    assert labels <= set(KNOWN)


def test_lines_are_thinned_but_keep_their_ends() -> None:
    curve = Curve("a", 0, [(t, t * t, 1.0) for t in range(500)])
    (chart,) = line_charts([Panel("t", ("round", "y"), [curve])], points=20)
    (line,) = chart.curves
    values = line.values.split()
    assert len(values) == 20 == line.path.count(",")
    assert values[0] == "0:0:1" and values[-1].startswith("499:")
    assert line.band.endswith("Z")
    assert line_charts([Panel("t", ("x", "y"), [Curve("a", 0, [])])], points=20) == []


def test_panels_of_one_quantity_share_their_y_axis() -> None:
    panels = [Panel(str(y), ("x", "y"), [Curve("a", 0, [(0, y, 0.0), (1, y + 1, 0.0)])]) for y in (0.0, 10.0)]
    one, other = line_charts(panels, points=20)
    assert one.y_ticks == other.y_ticks
    one, other = line_charts(panels, points=20, shared=False)
    assert one.y_ticks != other.y_ticks


def test_words_along_an_axis_have_the_room_that_there_is() -> None:
    names = ["a word", "one that is rather long to stand here", "b"]
    points = [(float(at), 1.0 + at, 0.0) for at in range(3)]
    (chart,) = line_charts([Panel("t", ("", "y"), [Curve("", 0, points)], names, (0, 1, 2), dots=True)], points=20)
    texts = [text for _, text in chart.x_ticks]
    assert texts[0] == "a word" and texts[1].startswith("one that") and texts[1].endswith("\u2026")
    assert chart.names == names


def test_numbers_along_an_axis_do_not_touch_each_other() -> None:
    points = [(x, 1.0, 0.0) for x in (0.9, 0.99, 0.999, 1.0)]
    (chart,) = line_charts([Panel("t", ("x", "y"), [Curve("", 0, points)], ticks=[x for x, *_ in points])], points=20)
    assert [text for _, text in chart.x_ticks] == ["1", "0.99", "0.9"]


def test_dots_stand_where_their_numbers_are() -> None:
    chart = dot_chart("t", ("x", "y"), [Dot(1, 10, "a", 0, "a"), Dot(2, 20, "b", 1, "b"), Dot(3, 15, "c", 2, "c")])
    assert chart
    a, b, c = chart.dots
    assert a.x < b.x < c.x and b.y < c.y < a.y  # pixels go down
    far = dot_chart("t", ("x", "y"), [Dot(1, 1, "a", 0, ""), Dot(10, 1, "b", 1, ""), Dot(100, 1, "c", 2, "")])
    assert far and far.dots[1].x - far.dots[0].x == pytest.approx(far.dots[2].x - far.dots[1].x, abs=0.2)


def test_a_parity_chart_has_one_scale_for_both() -> None:
    chart = parity_chart("t", ("paper", "ours"), [Dot(50, 50, "", 0, ""), Dot(70, 60, "", 0, "")], 2.5)
    assert chart
    assert [text for _, text in chart.x_ticks] == [text for _, text in chart.y_ticks]


def test_a_claims_interval_is_drawn_against_zero_and_its_margin() -> None:
    findings = [
        Finding("a", "x", "e", spread([1.0, 2.0, 3.0]), "open", bounds=(0.5, float("inf"))),
        Finding("a", "y", "e", spread([]), "no data"),
        Finding("b", "", "e", spread([-1.0]), "open"),
    ]
    first, empty, alone = page_claims(findings)
    assert first.interval and first.interval.low is not None and first.interval.high is not None
    assert (
        first.interval.low < first.interval.zero < first.interval.margin[0] < first.interval.mean < first.interval.high
    )
    assert empty.interval is None
    assert alone.interval and alone.interval.low is None and alone.interval.mean < alone.interval.zero


def test_a_sparkline_needs_two_points() -> None:
    assert sparkline([0.5], 10) == ""
    assert sparkline([0.1, float("nan"), 0.2], 10).count("L") == 1


def test_a_page_has_no_minus_zero(tmp_path: Path) -> None:
    study, store = mine(tmp_path), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5 - (1e-6 if labels["method.gamma"] == 0.9 else 0.0))
    text = make_report(study, store).files[-1].read_text()
    assert "0.00" in text
    assert not re.search(r"(?<![\d.])-0(\.0+)?(?![\d.])", text.partition("<main")[2].partition("<script")[0])


def test_a_page_has_no_parity_where_there_is_nothing_to_compare(page: StudyPage) -> None:
    assert page.parity == []
    assert "#parity" not in html("study.html", page=page)
    assert "<h2>Parity" not in html("study.html", page=page)


def test_the_interval_of_each_claim_can_be_read_beside_a_much_larger_one() -> None:
    small, large = interval(0.2, 0.1, 0.3, []), interval(-40.0, -45.0, -35.0, [0.5])
    for one in (small, large):
        assert one.low is not None and one.high is not None
        assert one.high - one.low > 15
        assert 0 < one.low < one.mean < one.high < one.width
        assert (one.zero, "0") in one.ticks
        places = sorted(place for place, _ in one.ticks)
        assert len(places) > 1
        assert min(b - a for a, b in pairwise(places)) > 12, "texts do not touch"
    assert large.margin


def test_evidence_is_a_sentence(page: StudyPage) -> None:
    first, second, third = page.claims[0].evidence.split(". ")
    assert first == "In test accuracy (%), 0.9 - 1 is 10.00, the mean over 3 seeds"
    assert second == "Its 95 % interval goes from 10.00 to 10.00"
    assert third.startswith("Its q value is 0")


def rising(low: float, high: float) -> Panel:
    """Two lines that rise steeply from 10 and then stay."""
    ends = {"a": low, "b": high}
    lines = [Curve(name, 0, [(t, 10.0 if t < 5 else end, 0.0) for t in range(100)]) for name, end in ends.items()]
    return Panel("t", ("round", "y"), lines)


def test_lines_are_zoomed_to_the_rounds_in_which_they_differ_and_can_be_shown_as_a_whole() -> None:
    (part,), (whole,) = (line_charts([rising(80, 82)], points=200, zoom=zoom) for zoom in (True, False))
    assert part.whole and whole.whole is None
    ends = [[float(curve.path.rpartition(",")[2]) for curve in chart.curves] for chart in (part, whole)]
    assert ends[0][0] - ends[0][1] > 0.8 * (HEIGHT - TOP - BOTTOM), "the difference fills the chart"
    assert ends[1][0] - ends[1][1] < 10
    for zoomed, plain in zip(*ends, strict=True):
        assert part.whole.stretch * zoomed + part.whole.shift == pytest.approx(plain, abs=0.2)
    assert part.whole.y_ticks == whole.y_ticks != part.y_ticks


def test_lines_that_differ_from_the_start_are_not_zoomed() -> None:
    assert line_charts([rising(11, 90)], points=200, zoom=True)[0].whole is None


@pytest.mark.parametrize(
    ("show", "words", "text"),
    [
        ("spread", "mean ± std", "60.90 ± 0.10"),
        ("interval", "mean and 95 % interval", "60.90 [60.65, 61.15]"),
        ("both", "mean ± std and 95 % interval", "60.90 ± 0.10 [60.65, 61.15]"),
    ],
)
def test_a_page_gives_beside_a_mean_what_the_study_file_says(tmp_path: Path, show: str, words: str, text: str) -> None:
    study, store = mine(tmp_path, f"{MINE}{REST}show: {show}\n"), Store(tmp_path)
    fill(store, study, accuracy)
    report = make_report(study, store)
    (table,) = study_page(report, report.files[0].parent, tmp_path).tables
    cell = table.rows[0][2]
    assert isinstance(cell, PageCell)
    assert (table.views["mean"], cell.texts["mean"]) == (words, text)
