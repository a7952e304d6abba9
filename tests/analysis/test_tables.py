import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedbench import UserError, load
from fedbench.analysis.tables import cells_frame, fill_tables
from fedbench.analysis.trials import rounds_frame, stored_trials
from fedbench.render.report import make_report
from fedbench.render.sheets import Entry, latex, markdown
from fedbench.render.study import folder_of
from fedbench.render.study_sheets import table_sheet
from fedbench.simulation.record import columns
from fedbench.specs.consistency import RESERVED
from fedbench.specs.expand import ScaledStudy, expand, study_files
from fedbench.store.store import Store
from tests.analysis.helpers import fill, on_screen, summary

ACCURACY = {1.0: 0.60, 0.99: 0.61, 0.97: 0.62, 0.95: 0.65, 0.93: 0.64, 0.9: 0.5}


@pytest.fixture
def paper() -> ScaledStudy:
    return expand("fixed_gamma", "paper", changes={}, only={"model": ["SimpleCNN"], "data.alpha": ["100"]}, seeds=None)


def test_a_table_has_the_papers_layout_means_in_percent(paper: ScaledStudy, tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, paper, lambda labels, seed: ACCURACY[labels["method.gamma"]] + 0.01 * (seed - 9))
    make_report(paper, store)
    folder = folder_of(paper, store)
    assert folder == tmp_path / "studies" / "fixed_gamma" / "paper" / "model=SimpleCNN+data.alpha=100"
    table = pd.read_csv(folder / "table.csv")
    assert list(table.columns) == ["data.alpha", "model", "1", "0.99", "0.97", "0.95", "0.93", "0.9"]
    assert table.iloc[0, :2].tolist() == [100, "SimpleCNN"]
    assert table.iloc[0, 2:].tolist() == pytest.approx([60, 61, 62, 65, 64, 50])
    cells = pd.read_csv(folder / "cells.csv").set_index("method.gamma")
    assert cells.loc[0.95, "std"] == pytest.approx(1.0)
    assert cells.loc[0.95, "difference"] == pytest.approx(5.0)
    assert cells.loc[0.95, "difference_low95"] == pytest.approx(5.0)  # every seed gains the same: no doubt is left
    assert cells.loc[0.95, "paper"] == 69.52
    assert cells.loc[0.95, "paper_difference"] == pytest.approx(65 - 69.52)
    markdown = (folder / "table.md").read_text()
    assert "**65.0 ± 1.0 [69.52]**" in markdown
    assert r"\bfseries 65.0 +- 1.0 & \textbf{~[69.52]}" in (folder / "table.tex").read_text()


def test_the_papers_numbers_stay_out_of_other_scales(tmp_path: Path) -> None:
    study, store = expand("fixed_gamma", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    assert cells_frame(study, make_report(study, store).tables)["paper"].isna().all()


def test_a_cell_with_missing_seeds_shows_n_and_is_never_the_best(paper: ScaledStudy, tmp_path: Path) -> None:
    store = Store(tmp_path)

    def outcome(labels: Any, seed: int) -> Any:
        gamma = labels["method.gamma"]
        if gamma == 0.95:
            return "diverged" if seed == 9 else 0.99
        if gamma == 0.9:
            return "failed"
        return None if gamma == 0.93 else ACCURACY[gamma]

    fill(store, paper, outcome)
    report = make_report(paper, store)
    row = on_screen(paper, report.trials, "accuracy").iloc[0]
    assert row["gamma 0.95"].startswith("99.00+0.00 (n=2)")
    assert row["gamma 0.97"].startswith("<62.00")
    assert (row["gamma 0.9"], row["gamma 0.93"]) == ("failed", "-")
    cells = cells_frame(paper, report.tables).set_index("method.gamma")
    assert cells.loc[0.95, "diverged"] == 1
    assert cells.loc[0.9, "failed"] == 3
    assert cells.loc[0.95, "mean_diverged_as_chance"] == pytest.approx((99 + 99 + 10) / 3)


def test_plots_are_valid_images(tmp_path: Path) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    files = {path.name: path.read_bytes() for path in make_report(study, store).files}
    assert files["curves.png"].startswith(b"\x89PNG")
    assert b"<svg" in files["curves.svg"]
    assert files["curves.pdf"].startswith(b"%PDF")
    assert b"Date" not in files["curves.pdf"]  # made again, it has the same bytes


def test_a_report_made_again_has_the_same_bytes(tmp_path: Path) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    first = {path: path.read_bytes() for path in make_report(study, store).files}
    assert {path: path.read_bytes() for path in make_report(study, store).files} == first


def test_a_table_that_mixes_environments_says_so(tmp_path: Path, paper: ScaledStudy) -> None:
    store = Store(tmp_path)
    fill(store, paper, lambda labels, seed: 0.5 if seed == 8 else None)
    threads = iter(range(2, 99))

    def other(labels: Any, seed: int) -> float | None:
        return 0.5 if seed == 9 else None

    fill(store, paper, other)
    trial = next(t for t in store.all())
    environment = json.loads((trial.path / "environment.json").read_text()) | {"threads": next(threads)}
    with store.entry(trial.hash) as folder:
        (folder / "rounds.csv").write_text((trial.path / "rounds.csv").read_text())
        (folder / "environment.json").write_text(json.dumps(environment))
        store.retire([trial.hash])
        store.commit(folder, trial.hash, "done", None, trial.summary)
    make_report(paper, store)
    assert "mixes 2 environments" in (folder_of(paper, store) / "table.md").read_text()


def test_rows_of_methods_say_what_they_use_of_the_proxy_set() -> None:
    study = expand("methods", "paper", changes={}, only={}, seeds=[8])
    frame = on_screen(study, {}, "accuracy")
    uses = dict(zip(frame["method"], frame["uses proxy"], strict=True))
    code = " as in the authors' code"
    clients = ["FedAvg + proxy as a client", "FedAvg + proxy as an average client"]
    both = [method + how for method in ("FedProx", "FedDyn") for how in ("", code)]
    assert uses == {
        **dict.fromkeys(["FedAvg", "FedAvg, uniform weights", *both], "no"),
        **dict.fromkeys(["FedDF", "FedBE", "FedAvg, bn=proxy"], "images"),
        **dict.fromkeys(["Server-FT", "FedLAW", "FedLAW (SWA)", f"FedLAW (SWA){code}", *clients], "labels"),
    }
    without = expand("methods", "paper", changes={}, only={"setting": ["C10 100 CNN"]}, seeds=[8])
    frame = on_screen(without, {}, "accuracy")
    assert frame.set_index("method").loc["FedAvg, bn=proxy", "uses proxy"] == "no"  # there is no batch norm there


def test_several_metrics_make_a_row_each_and_the_best_is_marked_along_an_axis(tmp_path: Path) -> None:
    study, store = expand("global_lr", "paper", changes={}, only={}, seeds=[8, 9]), Store(tmp_path)

    def outcome(labels: Any, seed: int) -> dict[str, Any]:
        better = labels["method"] == "adaptive GWS"
        return {**summary(0.7 if better else 0.6), "middle_gamma": 0.97 if better else 1.0}

    fill(store, study, outcome)
    frame = on_screen(study, stored_trials(study, store), "accuracy")
    accuracy, gamma = "test accuracy (%)", "gamma, mid-run"
    assert frame["value"].tolist() == [accuracy, gamma] * 4
    frame = frame.set_index(["alpha", "method", "value"])
    assert frame.loc[("100", "adaptive GWS", accuracy), "global lr 1"] == "<70.00+0.00† [71.98]>"
    assert frame.loc[("1", "adaptive GWS", accuracy), "global lr 0.5"] == "<70.00+0.00† [69.65]>"
    assert frame.loc[("100", "FedAvg", accuracy), "global lr 1"] == "60.00+0.00 [68.18]"
    assert frame.loc[("100", "adaptive GWS", gamma), "global lr 1"] == "0.9700+0.0000† [0.9740]"


def test_a_relative_gain_is_paired_by_seed(tmp_path: Path) -> None:
    study, store = expand("adaptive_gws", "paper", changes={}, only={}, seeds=[8, 9]), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.05 * seed * (1.1 if labels["method"] == "adaptive GWS" else 1.0))
    cells = cells_frame(study, fill_tables(study, stored_trials(study, store)))
    gains = cells[cells["table"] == "gain"]
    assert gains["mean"].tolist() == pytest.approx([10.0] * 12)
    assert gains["std"].tolist() == pytest.approx([0.0] * 12, abs=1e-9)
    assert gains["paper"].notna().all()


def test_the_best_loss_is_the_smallest(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: Mine\nshows: x\nbase: {method.name: fixed_gamma}\ngrid: {method.gamma: [1.0, 0.9]}\nseeds: [8]\n"
        "tables: {loss: {rows: [], columns: [method.gamma], value: [test_loss, gamma], best: row}}\n"
        "scales: {quick: {}}\n"
    )
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    fill(store, study, lambda labels, seed: {**summary(0.5), "final_loss": labels["method.gamma"], "middle_gamma": 1.0})
    frame = on_screen(study, stored_trials(study, store), "loss").set_index("value")
    assert frame.loc["test loss"].tolist() == ["1.0000", "<0.9000>"]
    assert frame.loc["gamma, mid-run"].tolist() == ["1.0000", "1.0000"]  # no gamma is better than another


def test_cells_that_a_study_skips_are_left_empty(tmp_path: Path) -> None:
    study, store = expand("gradient_coherence", "quick", changes={}, only={}, seeds=[8]), Store(tmp_path)
    assert len(study.cells) == 5
    fill(store, study, lambda labels, seed: 0.5)
    frame = on_screen(study, stored_trials(study, store), "coherence", ("", "")).set_index(["data", "value"])
    assert frame.loc[("hybrid", "test accuracy (%)"), "adaptive GWS"] == "-"
    assert frame.loc[("alpha 1", "test accuracy (%)"), "adaptive GWS"] == "50.00†"


def test_cells_taken_together_have_a_column_of_their_own(tmp_path: Path) -> None:
    study, store = expand("weight_correlation", "paper", changes={}, only={}, seeds=[8]), Store(tmp_path)
    fill(store, study, lambda labels, seed: {**summary(0.5), "pearson_size": 0.1})
    frame = on_screen(study, stored_trials(study, store), "pearson").set_index("value")
    assert list(frame.columns) == ["epochs 1", "epochs 5", "both"]
    assert frame.loc["correlation with data size", "epochs 1"] == "0.100† [-0.098]"


def test_what_is_taken_together_of_a_part_is_not_shown() -> None:
    study = expand("weight_correlation", "paper", changes={}, only={"clients.epochs": ["1"]}, seeds=[8])
    assert list(on_screen(study, {}, "pearson").columns) == ["value", "epochs 1"]


def test_a_table_about_what_was_not_picked_is_left_out(tmp_path: Path) -> None:
    picked = {"method": ["FedAvg"], "data.alpha": ["100"]}
    study, store = expand("adaptive_gws", "paper", changes={}, only=picked, seeds=[8]), Store(tmp_path)
    fill(store, study, lambda labels, seed: {**summary(0.5), "middle_gamma": 1.0})
    report = make_report(study, store)
    assert [name for name, places in report.tables.items() if places] == ["accuracy"]
    assert {path.name for path in report.files} == {"cells.csv", "table-accuracy.csv", "table-accuracy.md"} | {
        *("table-accuracy.tex", "trials.csv", "rounds.csv.gz", "claims.csv", "claims.md", "report.html", "report.json")
    }


def test_a_report_leaves_no_file_of_an_earlier_one_behind(tmp_path: Path) -> None:
    study, store = expand("adaptive_gws", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    folder = folder_of(study, store)
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("a user's own")
    (folder / "check.csv").write_text("of an earlier report")
    report = make_report(study, store)
    assert set(folder.iterdir()) == {*report.files, folder / "mine.txt"}


def test_a_variant_leaves_the_whole_studys_tables_alone(tmp_path: Path) -> None:
    whole, store = expand("fixed_gamma", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, whole, lambda labels, seed: 0.5)
    before = {path: path.read_bytes() for path in make_report(whole, store).files}
    options: list[dict[str, Any]] = [
        {"only": {"data.alpha": ["100"]}},
        {"changes": {"rounds": 99}},
        {"seeds": [8]},
        {"changes": {"rounds": 99}, "only": {"method.gamma": ["1,0.9"]}, "seeds": [8, 9]},
    ]
    names = ["data.alpha=100", "rounds=99", "seeds=8", "rounds=99+method.gamma=1,0.9+seeds=8,9"]
    for given, name in zip(options, names, strict=True):
        study = expand("fixed_gamma", "quick", **{"changes": {}, "only": {}, "seeds": None, **given})
        assert folder_of(study, store).name == study.variant == name
        make_report(study, store)
    assert {path: path.read_bytes() for path in before} == before
    assert "; changed: rounds=99)" in (folder_of(whole, store) / "rounds=99" / "table.md").read_text()


def test_a_study_of_ones_own_with_a_built_in_name_has_a_folder_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "smoke.yaml"
    path.write_text(study_files()["smoke"].read_text())
    mine = expand(str(path), "quick", changes={}, only={}, seeds=None)
    assert folder_of(mine, Store(tmp_path)).parts[-2:] == ("own-smoke", "quick")
    again = expand(str(study_files()["smoke"]), "quick", changes={}, only={}, seeds=None)
    assert again.name == "smoke"


def test_no_axis_may_be_called_like_a_column_of_the_results(tmp_path: Path) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    report = make_report(study, store)
    names = set(cells_frame(study, report.tables).columns) | set(rounds_frame(study, report.trials).columns)
    assert names - set(study.axes) <= RESERVED | set(columns())


def test_labels_are_safe_in_latex_and_null_is_a_label(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: Mine\nshows: x\nbase: {method.name: feddyn}\nseeds: [8]\nscales: {quick: {}}\n"
        "grid:\n  method.clip: [null, 10]\n  part: {25 % & more_of: {}, all: {clients.epochs: 1}}\n"
        "tables: {accuracy: {rows: [method.clip], columns: [part], best: row}}\n"
    )
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    fill(store, study, lambda labels, seed: 0.5)
    frame = on_screen(study, make_report(study, store).trials, "accuracy")
    assert frame["clip"].tolist() == ["null", "10"]
    assert frame["all"].tolist() == frame["25 % & more_of"].tolist() == ["<50.00>", "<50.00>"]  # both are the best
    folder = tmp_path / "out" / "studies" / "mine" / "quick"
    heads = [r"clip & {25 \% \& more\_of}", r"{all} \\"]
    assert " & ".join(heads) in (folder / "table.tex").read_text()
    assert (
        "Mine (scale quick, 50 rounds, scored over the last 5): test accuracy (%), one seed (8); in bold"
        in (folder / "table.md").read_text()
    )


SHORT = """
title: Mine
shows: x
base: {method.name: fixed_gamma, rounds: %d}
grid: {method.gamma: [1.0, 0.9]}
seeds: [8]
%s
tables: {a: {rows: [], columns: [method.gamma], value: [test_accuracy, last_accuracy, rounds_to_15, rounds_to_99]}}
scales: {quick: {}}
"""


@pytest.mark.parametrize(
    ("rounds", "score", "title", "accuracy"),
    [
        (50, "", "50 rounds, scored over the last 5)", "50.00"),
        (8, "", "8 rounds, scored over the last 3)", "50.00"),
        (200, "", "200 rounds, scored over the last 10)", "50.00"),
        (50, "score: {rounds: 1}", "50 rounds, scored over the last 1)", "20.00"),
        (50, "score: {rounds: 2}", "50 rounds, scored over the last 2)", "15.00"),
    ],
)
def test_a_score_over_other_rounds_is_said_and_taken_from_the_rounds(
    tmp_path: Path, rounds: int, score: str, title: str, accuracy: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SHORT % (rounds, score))
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    fill(store, study, lambda labels, seed: 0.5)  # and its rounds.csv has 0.1 and 0.2
    report = make_report(study, store)
    assert title in (tmp_path / "out" / "studies" / "mine" / "quick" / "table.md").read_text()
    frame = on_screen(study, report.trials, "a").set_index("value")
    assert frame.loc["test accuracy (%)", "gamma 1"] == accuracy
    assert frame.loc["test accuracy, last round (%)", "gamma 1"] == "50.00"
    assert frame.loc["rounds to 15 % test accuracy", "gamma 1"] == "2.0"
    assert frame.loc["rounds to 99 % test accuracy", "gamma 1"] == "0 of 1 reached it"


REACHING = """
title: Mine
shows: x
base: {method.name: fixed_gamma, rounds: 2}
grid: {method.gamma: [1.0, 0.9, 0.8]}
seeds: [1, 2, 3]
baseline: {method.gamma: 1.0}
tables:
  speed: {rows: [], columns: [method.gamma], value: rounds_to_80, best: row}
  accuracy: {rows: [], columns: [method.gamma], best: row}
scales: {quick: {}}
"""


def test_rounds_to_an_accuracy_have_no_mean_where_not_all_seeds_reached_it(tmp_path: Path) -> None:
    """The mean of those that did would be that of the quickest alone; nor is it the best, or has a difference."""
    (tmp_path / "mine.yaml").write_text(REACHING)
    study = expand(str(tmp_path / "mine.yaml"), "quick", changes={}, only={}, seeds=None)
    store = Store(tmp_path / "out")

    def rounds(labels: Any, seed: int) -> str:
        first = 0.9 if labels["method.gamma"] == 0.9 and seed == 1 else 0.1
        last = 0.1 if labels["method.gamma"] == 0.9 and seed == 2 else 0.9
        return f"round,test_accuracy,test_loss\n1,{first},2.0\n2,{last},1.5\n"

    fill(store, study, lambda labels, seed: "failed" if (labels["method.gamma"], seed) == (0.9, 3) else 0.5, rounds)
    trials = stored_trials(study, store)
    (row,) = on_screen(study, trials, "speed").to_dict("records")
    assert row == {"gamma 1": "<2.0+0.0 (n=3)>", "gamma 0.9": "1 of 2 reached it", "gamma 0.8": "<2.0+0.0 (n=3)>"}
    cells = cells_frame(study, fill_tables(study, trials)).set_index(["table", "method.gamma"]).loc["speed"]
    assert cells.loc[0.9, ["n", "reached", "finished", "difference_n"]].tolist() == [1, 1, 2, 0]
    assert cells.loc[0.9, ["mean", "difference"]].isna().all()
    assert cells.loc[0.8, ["mean", "difference", "difference_n"]].tolist() == [2, 0, 3]


def test_the_best_is_so_by_the_seeds_that_all_have_and_n_stands_in_each_cell(tmp_path: Path) -> None:
    """Seed 3 is easy: gamma 0.9 lacks it, and is the best of the others; 0.8 diverged, and never is."""
    (tmp_path / "mine.yaml").write_text(REACHING)
    study = expand(str(tmp_path / "mine.yaml"), "quick", changes={}, only={}, seeds=None)
    store = Store(tmp_path / "out")
    scores: dict[float, list[Any]] = {1.0: [0.5, 0.5, 0.9], 0.9: [0.6, 0.6, None], 0.8: [0.95, 0.95, "diverged"]}
    fill(store, study, lambda labels, seed: scores[labels["method.gamma"]][seed - 1])
    (row,) = on_screen(study, stored_trials(study, store), "accuracy").to_dict("records")
    assert row["gamma 1"].endswith("(n=3)")
    assert (row["gamma 0.9"], row["gamma 0.8"]) == ("<60.00+0.00 (n=2)>", "95.00+0.00 (n=2)")
    text = markdown(table_sheet(study, "accuracy", fill_tables(study, stored_trials(study, store))["accuracy"]))
    assert "n: seeds that have a number; in bold the best of each row, by the seeds that all have" in text


def test_an_entry_of_older_code_is_scored_by_its_last_rounds_not_by_its_learning_curve(tmp_path: Path) -> None:
    """Gamma 1 learns fast, 0.9 ends higher: the mean of the last ten of 16 rounds would have it the other way round."""
    path = tmp_path / "mine.yaml"
    path.write_text(SHORT % (16, ""))
    study, store = expand(str(path), "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    curves = {1.0: [0.8] * 16, 0.9: [0.05 * t for t in range(1, 14)] + [0.9] * 3}

    def rounds(labels: Any, seed: int) -> str:
        rows = [f"{t},{value},1.0" for t, value in enumerate(curves[labels["method.gamma"]], 1)]
        return "\n".join(["round,test_accuracy,test_loss", *rows])

    def old(labels: Any, seed: int) -> dict[str, Any]:
        return {**summary(sum(curves[labels["method.gamma"]][-10:]) / 10), "rounds": 16}

    fill(store, study, old, rounds)
    assert [trial.summary["final_accuracy"] for trial in store.all()] != [0.8, 0.9]
    frame = on_screen(study, stored_trials(study, store), "a").set_index("value")
    assert frame.loc["test accuracy (%)"].tolist() == ["80.00", "90.00"]


def test_there_is_a_row_for_every_trial_and_load_reaches_it(tmp_path: Path) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    with pytest.raises(UserError, match="holds no trial of smoke at scale quick; run it first"):
        load("smoke", out=tmp_path)
    fill(store, study, lambda labels, seed: "failed" if seed == 9 else None if labels["data.alpha"] == 1 else 0.5)
    make_report(study, store)
    written = pd.read_csv(folder_of(study, store) / "trials.csv")
    frame = load("smoke", out=tmp_path, table="trials")
    assert list(frame["hash"]) == list(written["hash"])
    assert len(frame) == len(study.trials)
    assert frame["status"].value_counts().to_dict() == {"failed": 4, "done": 2, "not run": 2}
    assert frame.loc[frame["status"] == "done", "final_accuracy"].tolist() == [0.5, 0.5]
    assert frame.loc[frame["status"] == "failed", "reason"].tolist() == ["why"] * 4
    assert set(load("smoke", out=tmp_path)["hash"]) == set(frame.loc[frame["status"] == "done", "hash"])
    assert len(load("smoke", out=tmp_path, table="cells")) == 4
    assert len(load("smoke", out=tmp_path, only={"data.alpha": ["100"]}, table="trials")) == 4


def test_numbers_that_rest_on_one_draw_of_the_proxy_set_are_marked(tmp_path: Path) -> None:
    study, store = expand("methods", "quick", changes={}, only={}, seeds=[8]), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    trials = stored_trials(study, store)
    shown = table_sheet(study, "accuracy", fill_tables(study, trials)["accuracy"])
    marks = {str(row[0]): row[-1].text() for row in shown.rows if isinstance(row[-1], Entry)}
    assert marks["FedAvg"] == marks["FedProx"] == "50.00"
    assert marks["FedLAW"] == marks["FedDF"] == "50.00†"
    assert "† depends on the draw of the proxy set; see spread sources" in shown.caption
    assert r"\textbf{$\dagger$}" in latex(shown, "x")


def test_a_study_that_varies_the_draw_of_the_proxy_set_has_no_such_marks(tmp_path: Path) -> None:
    study, store = expand("proxy_draw", "quick", changes={}, only={}, seeds=[8]), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5, config_file=True)
    shown = table_sheet(study, "accuracy", fill_tables(study, stored_trials(study, store))["accuracy"])
    assert "†" not in shown.caption
    assert all("†" not in cell.text() for row in shown.rows for cell in row if isinstance(cell, Entry))
