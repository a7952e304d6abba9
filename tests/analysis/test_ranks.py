"""Ranks of a study's cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedbench.analysis.ranks import Ranks, Scores, rank, ranks_frame, study_ranks
from fedbench.analysis.statistics.ranking import practical
from fedbench.analysis.trials import stored_trials
from fedbench.base.errors import ConfigError
from fedbench.render.pages.ranks import page_ranks
from fedbench.render.report import make_report
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from tests.analysis.helpers import MINE, fill, summary
from tests.commands import report as main
from tests.render.test_pages import REST, mine

Command = Callable[..., tuple[int, str, str]]


def ranked(folder: Path, outcome: Any, more: str = "ranks: method.gamma\n", text: str = MINE) -> Ranks:
    study, store = mine(folder, text + REST + more), Store(folder)
    fill(store, study, outcome)
    found = study_ranks(study, stored_trials(study, store))
    assert found
    return found


def test_two_cells_tell_nobody_apart_and_it_is_said(tmp_path: Path) -> None:
    found = ranked(tmp_path, lambda labels, seed: 0.9 if labels["method.gamma"] == 0.9 else 0.5)
    assert list(found.names) == ["gamma 0.9", "gamma 1", "gamma 0.8"]
    assert found.mean.ranks.tolist() == [1, 2.5, 2.5]
    assert found.sentence == "no two can be told apart: there are 2 cells, and for 3 pairs it takes at least 7"
    frame = ranks_frame(found)
    assert (frame["ahead of gamma 1"].iloc[0], frame["p against gamma 1"].iloc[0]) == (1, 1)


def test_a_single_cell_is_one_cell(tmp_path: Path) -> None:
    one = MINE.replace("data.alpha: [100, 1]", "data.alpha: [100]")
    found = ranked(tmp_path, lambda labels, seed: 0.9 if labels["method.gamma"] == 0.9 else 0.5, text=one)
    assert found.too_few == "there is 1 cell, and for 3 pairs it takes at least 7"


def test_the_one_that_is_ahead_in_many_cells_is_told_apart(tmp_path: Path) -> None:
    many = MINE.replace("data.alpha: [100, 1]", "data.alpha: [100, 50, 10, 5, 2, 1, 0.5]")
    found = ranked(tmp_path, lambda labels, seed: 0.9 if labels["method.gamma"] == 0.9 else 0.5, text=many)
    assert found.sentence == (
        "gamma 0.9 is ahead of gamma 1: probability 1.00 [0.59, 1.00] over 7 cells, p 0.047; "
        "gamma 1 and gamma 0.8 cannot be told apart"
    )


def test_within_the_margin_none_is_ahead(tmp_path: Path) -> None:
    def close(labels: Any, seed: int) -> float:
        return 0.504 if labels["method.gamma"] == 0.9 else 0.5

    assert ranked(tmp_path / "a", close).ahead[0][1].value == 0.5
    assert ranked(tmp_path / "b", close, "ranks: {axis: method.gamma, margin: 0.1}\n").ahead[0][1].value == 1


def test_what_diverged_is_behind_and_what_is_missing_is_counted(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> float | str | None:
        if labels["method.gamma"] == 0.8:
            return None
        return "diverged" if labels["method.gamma"] == 1 and seed == 8 else "failed" if seed == 9 else 0.5

    found = ranked(tmp_path, outcome)
    assert list(found.left_out) == ["gamma 0.8"]
    assert list(found.names) == ["gamma 0.9", "gamma 1"]
    assert list(found.missing) == [2, 2] and list(found.diverged) == [0, 2]
    assert found.ahead[0][1].value == 0.75  # it diverged in one of two seeds, and was as good in the other


def test_a_report_has_ranks_where_there_is_an_axis_for_them(tmp_path: Path) -> None:
    study, store = mine(tmp_path, MINE + REST + "ranks: method.gamma\n"), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    files = make_report(study, store).files
    assert {"ranks.csv", "ranks.png", "ranks.svg", "ranks.pdf"} <= {path.name for path in files}
    assert 'id="ranks"' in files[-1].read_text()
    plain = make_report(mine(tmp_path), store).files
    assert "ranks.csv" not in [path.name for path in plain]
    assert not list(plain[0].parent.glob("ranks.*"))


def test_the_diagram_has_everybody_at_its_rank_and_joins_who_is_alike(tmp_path: Path) -> None:
    page = page_ranks(ranked(tmp_path, lambda labels, seed: 0.9 if labels["method.gamma"] == 0.9 else 0.5))
    assert page and page.diagram
    first, *rest = page.diagram.ranked
    assert [one.name for one in page.diagram.ranked] == ["gamma 0.9", "gamma 1", "gamma 0.8"]
    assert [one.left for one in page.diagram.ranked] == [True, True, False]
    assert first.x < rest[0].x == rest[1].x
    assert page.diagram.bars == [(first.x - 3, rest[1].x + 3, page.diagram.bars[0][2])]  # two cells tell nobody apart


SECOND = (MINE + REST).replace("[1.0, 0.9, 0.8]", "[1.0, 0.9, 0.7]").replace("[8, 9, 10]", "[8, 9]")


def two_studies(folder: Path) -> tuple[str, str]:
    """The files of two studies with results in one folder; 0.9 and 1 are in both of them."""
    store, files = Store(folder), []
    for name, text in (("one", MINE + REST), ("two", SECOND)):
        (folder / f"{name}.yaml").write_text(text + "ranks: method.gamma\n")
        files.append(str(folder / f"{name}.yaml"))
        study = expand(files[-1], "quick", changes={}, only={}, seeds=None)
        fill(store, study, lambda labels, seed: 0.6 if labels["method.gamma"] == 0.9 else 0.5)
    return files[0], files[1]


def test_several_studies_are_ranked_over_all_their_cells(tmp_path: Path, command: Command) -> None:
    one, two = two_studies(tmp_path)
    code, text, error = command(main, "--ranks", one, two, "--out", str(tmp_path))
    assert (code, error) == (0, "")
    assert "ranks over 4 cells" in text
    assert "no two can be told apart: there are 4 cells, and for 1 pair it takes at least 6" in text
    assert "left out, not in all studies or without results: gamma 0.8, gamma 0.7" in text
    folder = tmp_path / "ranks" / "one+two" / "quick"
    frame = pd.read_csv(folder / "ranks.csv")
    assert frame["name"].tolist() == ["gamma 0.9", "gamma 1"]
    assert frame["missing"].tolist() == [2, 2]  # the second study has a seed less
    assert {path.name for path in folder.iterdir()} == {"ranks.csv", "ranks.png", "ranks.svg", "ranks.pdf"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--ranks", "methods", "methods"], "methods stands twice"),
        (["--ranks", "fixed_gamma"], "has no axis to rank along"),
        (["--ranks", "methods", "large_cohort"], "large_cohort"),
        (["--ranks", "methods"], "fewer than two competitors have results"),
        (["--ranks", "all"], "all"),
        (["methods", "--ranks", "methods"], "not both"),
        (["--ranks", "methods", "--check"], "--check, --compare: go with one study"),
        ([], "name a study"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], complaint: str, tmp_path: Path, command: Command) -> None:
    (tmp_path / "trials").mkdir()
    code, _, error = command(main, *arguments, "--out", str(tmp_path))
    assert code == 2
    assert complaint in error and error.startswith("error: ") and error.count("\n") == 1


def test_no_plot_takes_the_name_of_the_diagram(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plots\.ranks: a file of every report is called so"):
        mine(tmp_path, (MINE + REST).replace("plots: {curves:", "plots: {ranks:"))


def test_those_that_cannot_be_told_apart_cannot_be_from_any_of_the_others() -> None:
    # a is far ahead; b is above c and d in ten of twelve cells and below them in two; c is above d in all of them
    cells = [[90.0, 70.0, 60.0, 55.0]] * 10 + [[90.0, 50.0, 60.0, 55.0]] * 2
    found = rank(Scores("method", ["a", "b", "c", "d"], np.array(cells)[:, None, :], [0] * 4, 0.5))
    assert found and list(found.names) == ["a", "b", "c", "d"]
    assert found.sentence == (
        "a is ahead of b: probability 1.00 [0.74, 1.00] over 12 cells, p 0.0029; b and c cannot be told apart"
    )


def test_trials_are_ranked_by_any_metric_that_has_a_better_side(tmp_path: Path) -> None:
    def outcome(labels: Any, seed: int) -> Any:
        return {**summary(0.5), "final_loss": labels["method.gamma"]}

    found = ranked(tmp_path, outcome, "ranks: {axis: method.gamma, value: test_loss}\n")
    assert list(found.names) == ["gamma 0.8", "gamma 0.9", "gamma 1"], "a low loss is better"
    assert found.by == "test loss"
    with pytest.raises(ConfigError, match="megabytes"):
        ranked(tmp_path, outcome, "ranks: {axis: method.gamma, value: norm_w}\n")
    with pytest.raises(ConfigError, match="neither high nor low values are better"):
        ranked(tmp_path, outcome, "ranks: {axis: method.gamma, value: mean_norm_w}\n")


def test_ranks_in_practice_need_more_than_the_margin() -> None:
    """Over twelve cells: b is behind a by one point, c by a tenth; by half a point, b is behind and c is equal."""
    rng = np.random.default_rng(3)
    shared = 50 + 10 * rng.standard_normal((12, 3, 1))
    values = shared + np.array([1.0, 0.0, 0.9]) + 0.05 * rng.standard_normal((12, 3, 3))
    found = rank(Scores("method", ["a", "b", "c"], values, [0, 0, 0], 0.5))
    assert found is not None and found.names[0] == "a"
    assert "a is ahead of b (in 12 of 12 cells" in found.in_practice
    assert "practically equal to c (in 12 of 12 cells" in found.in_practice
    assert "with a margin of 0.5 points" in found.in_practice
    exact = 3 * 2 * 0.5**12
    assert found.practical[0][1].p == pytest.approx(exact)
    a, b = found.names.index("a"), found.names.index("b")
    assert (found.practical[b][a].decision, found.practical[b][a].behind) == ("behind", 12)
    frame = ranks_frame(found).set_index("name")
    assert frame.loc["a", "cells ahead of b by more than 0.5"] == 12
    assert frame.loc["a", "cells within 0.5 of c"] == 12
    assert frame.loc["c", "in practice against a"] == "equal"


def test_what_diverged_is_behind_in_practice_and_few_cells_leave_it_open() -> None:
    values = np.full((6, 3, 2), 50.0)
    values[:, 1, 1] = -np.inf
    found = practical(values[:, :, 0], values[:, :, 1], 0.5)
    assert (found.ahead, found.within, found.behind, found.decision) == (6, 0, 0, "ahead")
    few = practical(values[:5, :, 0], values[:5, :, 1], 0.5)
    assert few.decision == "open" and few.reverse.behind == 5
    both = np.full((6, 3), -np.inf)
    assert practical(both, both, 0.5).cells == 0 and practical(both, both, 0.5).decision == "open"
