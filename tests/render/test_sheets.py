"""Tables as people read them: in Markdown, and in LaTeX that compiles (the structure that it takes for that)."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fedbench.analysis.tables import fill_tables
from fedbench.analysis.trials import stored_trials
from fedbench.render.sheets import Entry, Sheet, latex, markdown
from fedbench.render.shown import sheet
from fedbench.specs.expand import expand
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
    assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1] == ["table", "tabular"]
    assert r"\caption{100 \% of a\_b: c. mixes $<$2$>$.}" in text
    assert r"\label{tab:mine-quick-rounds-9-seeds-8-9-first-table}" in text
    assert text.index(r"\caption") < text.index(r"\label") < text.index(r"\begin{tabular}")
    for rule in ("toprule", "midrule", "bottomrule"):  # with booktabs and without
        assert rf"\providecommand{{\{rule}}}{{\hline}}" in text
    (columns,) = re.findall(r"\\begin\{tabular\}\{(.*)\}", text)
    assert columns == r"lr@{}lp{0.3\linewidth}"
    rows = [line for line in text.splitlines() if line.endswith((r"\\", r"\tabularnewline"))]
    assert [width(row) for row in rows] == [4, 4, 4, 4]
    assert text.count("{") == text.count("}")


def test_numbers_stand_in_line_in_latex() -> None:
    text = latex(WORD, "x")
    assert r"& \textbf{$-$1.50} & \textbf{~$\pm$~0.25~(n=2)~[$-$3.00*]} &" in text
    assert r"& 10.00 & ~$\pm$~1.25 &" in text
    assert r"& \multicolumn{2}{c}{diverged} &" in text
    assert r"a$|$b\_c &" in text


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
    shown = sheet(study, "accuracy", fill_tables(study, stored_trials(study, store))["accuracy"])
    text = written(shown).replace("\\", "").replace("$pm$", "±")
    for label in ("alpha", "global lr 0.5", "test accuracy (%)", "gamma, mid-run", "uses proxy"):
        assert label in text
    for name in ("test_accuracy", "data.alpha", "server.global_lr"):
        assert name not in text
    assert "2 metrics, mean ± standard deviation over 2 seeds (8, 9); in bold the best along method" in text
    assert "only seeds=8,9)" in text


def test_a_caption_says_what_is_missing_and_what_differences_are_taken_to(tmp_path: Path) -> None:
    study, store = expand("adaptive_gws", "paper", changes={}, only={}, seeds=[8, 9, 10]), Store(tmp_path)
    fill(store, study, lambda labels, seed: None if seed == 9 and labels["method"] != "FedAvg" else summary(0.5))
    caption = sheet(study, "gain", fill_tables(study, stored_trials(study, store))["gain"]).caption
    assert "relative gain in test accuracy, %, mean ± standard deviation over 3 seeds (8, 9, 10)" in caption
    assert "; against FedAvg of the same seed; n: seeds that have a number; in brackets" in caption


def test_two_axes_of_one_short_name_keep_their_whole_names() -> None:
    assert heads(["data.size", "proxy.size", "data.alpha", "method"]) == ["data.size", "proxy.size", "alpha", "method"]
