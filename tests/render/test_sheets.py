"""Tables as people read them: in Markdown, and in LaTeX that compiles (the structure that it takes for that)."""

import re
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from fedbench.analysis.tables import fill_tables
from fedbench.analysis.trials import stored_trials
from fedbench.render.sheets import Entry, Sheet, latex, markdown
from fedbench.render.study_sheets import table_sheet
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.specs.names import heads
from fedbench.store.store import Store
from tests.analysis.helpers import fill, summary

WORD = Sheet(
    ["method|name", "alpha 100", "settings"],
    [
        ["a|b_c", Entry("-1.50", "0.25", " (n=2) [-3.00*]", best=True), "x=1"],
        ["d", Entry("10.00", "1.25"), "x=2, " * 10],
        ["e", "diverged", ""],
    ],
    "100 % of a_b: c",
    ["mixes <2>"],
)


def width(row: str) -> int:
    """How many columns of a tabular a row fills."""
    spans = [int(number) for number in re.findall(r"\\multicolumn\{(\d)\}", row)]
    return len(re.split(r"(?<!\\)&", row)) + sum(spans) - len(spans)


def test_a_table_in_latex_has_what_it_takes_to_compile() -> None:
    text = latex(WORD, "mine quick rounds=9+seeds=8,9 first_table")
    assert text.startswith("% needs \\usepackage{booktabs} and \\usepackage{siunitx}\n")
    assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1] == ["table", "tabular"]
    assert r"\caption{100 \% of a\_b: c. mixes $<$2$>$.}" in text
    assert r"\label{tab:mine-quick-rounds-9-seeds-8-9-first-table}" in text
    assert text.index(r"\caption") < text.index(r"\label") < text.index(r"\begin{tabular}")
    (columns,) = re.findall(r"\\begin\{tabular\}\{(.*)\}", text)
    assert columns == r"lS[table-format=-2.2(3)]@{}lp{0.3\linewidth}"
    rows = [line for line in text.splitlines() if line.endswith((r"\\", r"\tabularnewline"))]
    assert [width(row) for row in rows] == [4, 4, 4, 4]
    assert text.count("{") == text.count("}")


def test_numbers_are_those_of_siunitx_in_latex() -> None:
    text = latex(WORD, "x")
    assert r"& \bfseries -1.50 +- 0.25 & \textbf{~(n=2)~[$-$3.00*]} &" in text
    assert r"& 10.00 +- 1.25 &  &" in text
    assert r"& \multicolumn{2}{c}{diverged} &" in text
    assert r"a$|$b\_c &" in text


DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\usepackage{siunitx}
\begin{document}
\input{table.tex}
\end{document}
"""


@pytest.mark.skipif(which("pdflatex") is None, reason="no LaTeX: apt install texlive-latex-base texlive-science")
@pytest.mark.parametrize("show", ["spread", "both"])
def test_a_table_compiles_and_says_the_same_on_paper(tmp_path: Path, show: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SHOWN % show)
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    fill(store, study, lambda labels, seed: "diverged" if labels["method.gamma"] == 0.8 else 0.5 + 0.01 * seed)
    (tmp_path / "table.tex").write_text(latex(own_sheet(study, store), "own_table & more"))
    (tmp_path / "paper.tex").write_text(DOCUMENT)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    if which("pdftotext"):
        text = subprocess.run(["pdftotext", "-layout", "paper.pdf", "-"], cwd=tmp_path, capture_output=True, text=True)
        assert "52.0 ± 1.0" in re.sub(r"\s*±\s*", " ± ", text.stdout)
        assert "diverged" in text.stdout


SHOWN = """
title: Mine
shows: x
show: %s
base: {data.train_size: 200, data.test_size: 200, clients.count: 2, rounds: 2, method.name: fixed_gamma}
grid: {method.gamma: [1.0, 0.9, 0.8]}
seeds: [1, 2, 3]
tables: {accuracy: {rows: [], columns: [method.gamma], best: row}}
scales: {quick: {}}
"""


def own_sheet(study: ScaledStudy, store: Store) -> Sheet:
    return table_sheet(study, "accuracy", fill_tables(study, stored_trials(study, store))["accuracy"])


@pytest.mark.parametrize(
    ("show", "meaning", "text"),
    [
        ("spread", "mean ± standard deviation over 3 seeds", "52.0 ± 1.0"),
        ("interval", "mean [95 % interval] over 3 seeds", "52.0 [49.5, 54.5]"),
        ("both", "mean ± standard deviation [95 % interval] over 3 seeds", "52.0 ± 1.0 [49.5, 54.5]"),
    ],
)
def test_a_study_file_says_what_stands_beside_a_mean(tmp_path: Path, show: str, meaning: str, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SHOWN % show)
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    fill(store, study, lambda labels, seed: 0.5 + 0.01 * seed)
    shown = own_sheet(study, store)
    assert meaning in shown.caption
    assert [cell.text() for cell in shown.rows[0] if isinstance(cell, Entry)] == [text] * 3


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([0.50, 0.60, 0.55], "55.0 ± 5.0"),
        ([0.501, 0.503, 0.505], "50.30 ± 0.20"),
        ([0.5001, 0.5003, 0.5005], "50.03 ± 0.02"),  # as many as the metric has
        ([0.50001, 0.50003, 0.50005], "50.003 ± 0.002"),  # more, since the spread would look like zero
        ([0.1, 0.5, 0.9], "50 ± 40"),
        ([0.5, 0.5, 0.5], "50.00 ± 0.00"),
    ],
)
def test_numbers_have_as_many_digits_as_their_spread_says(tmp_path: Path, scores: list[float], wanted: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SHOWN % "spread")
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    fill(store, study, lambda labels, seed: scores[seed - 1])
    first = own_sheet(study, store).rows[0][0]
    assert isinstance(first, Entry)
    assert first.text() == wanted


NOISE = {1.0: [0.0, 0.0, 0.0], 0.9: [-0.02, 0.01, -0.01], 0.8: [-0.05, -0.052, -0.048]}


def bold(tmp_path: Path, seeds: str = "1, 2, 3", more: str = "", failed: bool = False) -> list[bool]:
    """Which of three cells are bold: the best, one that is hardly worse, and one that is clearly worse."""
    path = tmp_path / "mine.yaml"
    path.write_text(SHOWN.replace("1, 2, 3", seeds) % "spread" + more)
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")

    def score(labels: Mapping[str, Any], seed: int) -> float | None:
        missing = failed and (labels["method.gamma"], seed) == (0.9, 3)
        return None if missing else 0.5 + 0.1 * seed + NOISE[labels["method.gamma"]][seed - 1]

    fill(store, study, score)
    return [isinstance(cell, Entry) and cell.best for cell in own_sheet(study, store).rows[0]]


def test_all_that_the_test_of_the_claims_does_not_tell_apart_from_the_best_is_bold(tmp_path: Path) -> None:
    assert bold(tmp_path) == [True, True, False], "by differences of one seed, which vary much less than the seeds do"


def test_the_best_alone_is_bold_where_there_is_no_test(tmp_path: Path) -> None:
    assert bold(tmp_path, seeds="1") == [True, False, False]
    assert bold(tmp_path, failed=True) == [True, False, False]


def test_what_is_within_the_margin_of_the_best_is_bold(tmp_path: Path) -> None:
    assert bold(tmp_path, more="margins: {test_accuracy: 6}\n") == [True, True, True]


def test_captions_for_papers_have_no_underscores(tmp_path: Path) -> None:
    study, store = (
        expand("methods", "quick", changes={"clients.batch_size": 16}, only={}, seeds=[8, 9]),
        Store(tmp_path),
    )
    fill(store, study, lambda labels, seed: 0.5 + 0.01 * seed)
    for name, filled in fill_tables(study, stored_trials(study, store)).items():
        assert "_" not in table_sheet(study, name, filled).caption


def test_numbers_stand_to_the_right_in_markdown_and_bars_do_no_harm() -> None:
    caption, _, head, rule, *rows = markdown(WORD).splitlines()
    assert caption == WORD.caption
    assert re.findall("-+:?", rule)[1].endswith(":")
    assert not re.findall("-+:?", rule)[0].endswith(":")
    assert head.startswith(r"| method\|name |")
    assert rows[0].startswith(r"| a\|b_c ")
    assert "| **-1.50 ± 0.25 (n=2) [-3.00*]** |" in rows[0]
    assert "|                    10.00 ± 1.25 |" in rows[1]
    assert len({len(row) for row in (head, rule, *rows[:3])}) == 1
    assert rows[-1] == "mixes <2>"


@pytest.mark.parametrize("written", [markdown, partial(latex, label="x")])
def test_a_studys_table_has_the_labels_of_the_terminal(tmp_path: Path, written: Callable[[Sheet], str]) -> None:
    study, store = expand("global_lr", "quick", changes={}, only={}, seeds=[8, 9]), Store(tmp_path)
    fill(store, study, lambda labels, seed: {**summary(0.5 + 0.01 * seed), "middle_gamma": 0.97})
    shown = table_sheet(study, "accuracy", fill_tables(study, stored_trials(study, store))["accuracy"])
    text = written(shown).replace("\\", "").replace("$pm$", "±").replace("+-", "±")
    for label in ("alpha", "global lr 0.5", "test accuracy (%)", "gamma, mid-run", "uses proxy"):
        assert label in text
    for name in ("test_accuracy", "data.alpha", "server.global_lr"):
        assert name not in text
    assert "2 metrics, mean ± standard deviation over 2 seeds (8, 9); in bold the best along method" in text
    assert "only seeds=8,9)" in text


def test_a_caption_says_what_is_missing_and_what_differences_are_taken_to(tmp_path: Path) -> None:
    study, store = expand("adaptive_gws", "paper", changes={}, only={}, seeds=[8, 9, 10]), Store(tmp_path)
    fill(store, study, lambda labels, seed: None if seed == 9 and labels["method"] != "FedAvg" else summary(0.5))
    caption = table_sheet(study, "gain", fill_tables(study, stored_trials(study, store))["gain"]).caption
    assert "relative gain in test accuracy, %, mean ± standard deviation over 3 seeds (8, 9, 10)" in caption
    assert "; against FedAvg of the same seed; n: seeds that have a number; in brackets" in caption


def test_two_axes_of_one_short_name_keep_their_whole_names() -> None:
    assert heads(["data.size", "proxy.size", "data.alpha", "method"]) == ["data.size", "proxy.size", "alpha", "method"]
