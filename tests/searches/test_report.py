"""What a search writes, of suggestions and runs that were made up."""

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedbench.searches.report import compare, make_search_report, result_of
from fedbench.searches.result import tuned
from fedbench.searches.suggestions import Suggestions, open_storage
from fedbench.specs.space import ScaledSpace, expand_space
from fedbench.store.store import Store
from tests.analysis.helpers import fill, summary
from tests.searches.test_suggestions import SPACE, opened, result

MORE = """
parameters:
  clients.lr: {loguniform: [0.01, 1]}
  clients.batch_size: {choice: [32, 64]}
"""


@pytest.fixture
def search(tmp_path: Path) -> Suggestions:
    """Three suggestions that ran in full."""
    search = opened(tmp_path, SPACE.replace("\nparameters:\n", MORE))
    for score in (0.5, 0.7, 0.6):
        trial = search.study.ask()
        for parameter in search.arm.parameters:
            parameter.suggest(trial)
        search.record(trial, result("done", score, 10))
    return search


def run(store: Store, search: Suggestions, accuracies: dict[str, float]) -> None:
    """The table's runs."""
    (comparison,) = compare(result_of(search.space, [search]))
    for name, accuracy in accuracies.items():
        for seed, config in getattr(comparison, name).items():
            with store.entry(config.hash) as folder:
                store.commit(folder, config.hash, "done", None, summary(accuracy + 0.01 * seed))


def report(search: Suggestions, store: Store) -> dict[str, bytes]:
    """All files, by name."""
    folder = store.out / "searches" / "mine" / "quick"
    with warnings.catch_warnings(action="error"):  # such as a plot that cannot be drawn
        files = make_search_report(result_of(search.space, [search]), [search], store, plots=True).files
    assert {path.name for path in files} == {path.name for path in folder.iterdir()}
    return {path.name: path.read_bytes() for path in files}


def test_a_search_has_a_table_for_papers_and_plots_that_are_the_same_when_made_again(
    search: Suggestions, tmp_path: Path
) -> None:
    store = Store(tmp_path / "out")
    folder = store.out / "searches" / "mine" / "quick"
    run(store, search, {"default": 0.5, "tuned": 0.6})
    files = report(search, store)
    assert set(files) >= {"best.yaml", "suggestions.csv", "tuning.csv", "tuning.md", "tuning.tex", "report.json"} | {
        f"{plot}.{ending}" for plot in ("history", "slice", "importance") for ending in ("png", "svg", "pdf")
    }
    assert set(files) >= {
        "table.csv",
        "table.tex",
        "claims.csv",
        "cells.csv",
        "trials.csv",
        "curves.png",
        "report.html",
    }
    latex = files["tuning.tex"].decode()
    reading = r"test accuracy (\%), scored over the last 3 rounds, mean $\pm$ standard deviation over 2 seeds (8, 9)"
    assert rf"\caption{{Mine (scale quick): {reading}; difference: tuned minus default, seed by seed" in latex
    assert r"\label{tab:search-mine-quick}" in latex
    assert r"& 58.50 +- 0.71 & 68.50 +- 0.71 & +10.00 & ~[$+$10.00,~$+$10.00] &" in latex
    assert r"clients.batch\_size=" in latex
    page = files["report.html"].decode()
    assert 'id="tuning"' in page and page.count("data:image/png") >= 3
    assert "python -m fedbench.search" in page
    inodes = {path.name: path.stat().st_ino for path in folder.iterdir()}
    held = [path.open("rb") for path in sorted(folder.iterdir())]  # so that no number is given again
    assert report(search, store) == files
    assert all(path.stat().st_ino != inodes[path.name] for path in folder.iterdir())  # written elsewhere, then renamed
    for stream in held:
        stream.close()


def test_a_search_of_one_method_and_one_seed_has_no_spread(search: Suggestions, tmp_path: Path) -> None:
    space = expand_space(str(tmp_path / "mine.yaml"), "quick", changes={}, seeds=[8])
    one = Suggestions(space, space.arms[0], search.storage, search.study)
    store = Store(tmp_path / "out")
    run(store, one, {"default": 0.5})
    made = make_search_report(result_of(space, [one]), [one], store, plots=False)
    text = (tmp_path / "out" / "searches" / "mine" / "quick" / "seeds=8" / "tuning.md").read_text()
    assert text.startswith(
        "Mine (scale quick; only seeds=8): test accuracy (%), scored over the last 3 rounds, one seed (8)\n"
    )
    (row,) = [line for line in text.splitlines() if line.startswith("| fixed_gamma")]
    assert [cell.strip() for cell in row.split("|")][2:7] == ["3", "3", "58.00", "-", "-"]
    assert {path.stem for path in made.files if path.suffix == ".png"} == {"curves"}


def test_no_search_dies_on_one_plot(search: Suggestions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr("optuna.importance.get_param_importances", fail)
    with pytest.warns(UserWarning, match="plot 'importance' cannot be drawn .ZeroDivisionError: no luck."):
        made = make_search_report(result_of(search.space, [search]), [search], Store(tmp_path / "out"), plots=True)
    assert {path.stem for path in made.files if path.suffix == ".png"} >= {"history", "slice"}
    assert "importance" not in {path.stem for path in made.files}


THREE = """
title: Mine
tunes: something
base: {data.train_size: 300, data.test_size: 200, clients.count: 5, rounds: 3}
methods:
  FedAvg: {method.name: fedavg}
  FedProx: {method.name: fedprox}
  gamma: {method.name: fixed_gamma}
references:
  FedAvg without momentum: {method.name: fedavg, clients.momentum: 0.0}
parameters:
  method.mu: {loguniform: [1e-4, 1], when: {method.name: fedprox}}
  method.gamma: {uniform: [0.5, 1], when: {method.name: fixed_gamma}}
trials: 3
suggestion_seeds: [1, 2]
seeds: [8, 9, 10]
scales: {quick: {}}
"""
DEFAULTS = {"FedAvg": 0.50, "FedProx": 0.66, "gamma": 0.52, "FedAvg without momentum": 0.40}
TUNED = {"FedProx": 0.5967, "gamma": 0.60}


@pytest.fixture
def three(tmp_path: Path) -> tuple[ScaledSpace, list[Suggestions], Store]:
    """A search of two methods beside two references; all runs of its table are stored."""
    (tmp_path / "mine.yaml").write_text(THREE)
    space, store = expand_space(str(tmp_path / "mine.yaml"), "quick", changes={}), Store(tmp_path / "out")
    storage = open_storage(f"sqlite:///{tmp_path / 'optuna.sqlite3'}")
    searches = [Suggestions.open(storage, space, arm) for arm in tuned(space)]
    for number, search in enumerate(searches):
        for score in (None, 0.5, 0.7):
            trial = search.study.ask()
            for parameter in search.arm.parameters:
                parameter.suggest(trial)
            stopped = number == 0 and score is None
            search.record(trial, result("stopped" if stopped else "done", score or 0.4, 1 if stopped else 3))
    study = result_of(space, searches)
    scores = {(name, "default"): score for name, score in DEFAULTS.items()}
    scores |= {(name, "tuned"): TUNED.get(name, score) for name, score in DEFAULTS.items()}
    noise = {8: 0.0, 9: 0.001, 10: 0.002}
    fill(store, study, lambda labels, seed: scores[labels["method"], labels["settings"]] + noise[seed])
    return space, searches, store


def test_the_result_of_a_search_is_a_study_with_references_and_claims(
    three: tuple[ScaledSpace, list[Suggestions], Store],
) -> None:
    space, searches, store = three
    study = result_of(space, searches)
    assert study.axes == {"method": list(DEFAULTS), "settings": ["default", "tuned"]}
    assert len(study.trials) == 3 * (4 + 2), "what a reference has counts as tuned, and is run once"
    made = make_search_report(study, searches, store, plots=False)
    table = pd.read_csv(store.out / "searches" / "mine" / "quick" / "table.csv").set_index("method")
    assert table["tuned"].round(2).to_dict() == {
        "FedAvg": 50.1,
        "FedProx": 59.77,
        "gamma": 60.1,
        "FedAvg without momentum": 40.1,
    }
    gain = pd.read_csv(store.out / "searches" / "mine" / "quick" / "table-gain.csv").set_index("method")
    assert gain.loc["gamma"].round(2).to_dict() == {"default": 2.0, "tuned": 10.0}, "each against FedAvg of its column"
    verdicts = {found.says: found.verdict for found in made.report.findings}
    assert verdicts == {
        "FedProx beats FedAvg, both tuned (ours)": "holds",
        "gamma beats FedAvg, both tuned (ours)": "holds",
        "FedAvg without momentum beats FedAvg, both tuned (ours)": "fails",
        "tuning improves FedProx (ours)": "fails",
        "tuning improves gamma (ours)": "holds",
    }
    assert '<a href="searches/mine/quick/report.html">Mine</a>' in (store.out / "index.html").read_text()


def test_a_search_warns_where_tuning_did_not_help_and_where_the_default_was_stopped(
    three: tuple[ScaledSpace, list[Suggestions], Store],
) -> None:
    space, searches, store = three
    made = make_search_report(result_of(space, searches), searches, store, plots=False)
    assert made.tuning.warnings == [
        "FedProx: tuned (59.77) is not better than its default (66.10) on fresh seeds",
        "FedProx: the scheduler stopped the default settings after round 1, so that no suggestion was compared with "
        "them in full (--scheduler none stops nothing)",
    ]
    assert made.tuning.best["method"] == "FedProx, default settings", "66.10 with default, 60.10 tuned of another"
    assert made.table.set_index("method")["searched"].to_dict() == {
        "FedAvg": 0,
        "FedProx": 1,
        "gamma": 1,
        "FedAvg without momentum": 0,
    }
    text = (store.out / "searches" / "mine" / "quick" / "tuning.md").read_text()
    assert "methods with the same number of suggestions are not tuned equally well" in text
    for page in ("index.html", "searches/mine/quick/report.html"):
        assert "tuned (59.77) is not better than its default (66.10)" in (store.out / page).read_text()


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_gains_that_survive_asks_the_same_of_each_successor_under_three_recipes(scale: str) -> None:
    space = expand_space("gains_that_survive", scale, changes={})
    study = result_of(space, [])
    assert study.study.baseline == {"method": "FedAvg"}
    claims = [claim for claim in study.study.claims if not claim.says.startswith("tuning improves")]
    for name in ("FedLWS", "FedAWA", "FedHAW", "FedDisco"):
        mine = [claim.names for claim in claims if claim.says.startswith(f"{name} ")]
        assert len(mine) == 3, "as released, at the recipe of FedAvg, and both tuned"
        released, fair = (study.by_labels[label, "default"].trials[8] for label in (f"{name} as released", name))
        (pair,) = [names["method"] for names in mine if f"{name} as released" in names["method"]]
        (other,) = [str(label) for label in pair if label != f"{name} as released"]
        beside = study.by_labels[other, "default"].trials[8]
        assert beside.method.name == "fedavg"
        assert beside.clients == released.clients, "FedAvg with the client recipe of the released code"
        assert fair.clients == study.by_labels["FedAvg", "default"].trials[8].clients
    assert {arm.label for arm in tuned(space)} == set(list(study.axes["method"])[:7])
