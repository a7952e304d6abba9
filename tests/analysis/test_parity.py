"""Parity with the paper: a verdict for every number that it reports."""

from pathlib import Path
from typing import Any

import pytest

from fedbench.analysis.parity import parity
from fedbench.analysis.tables import fill_tables
from fedbench.analysis.trials import stored_trials
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from tests.analysis.helpers import fill, on_screen, summary
from tests.commands import report as main


def checked(name: str, folder: Path, outcome: Any, **options: Any) -> Any:
    study = expand(name, "paper", **{"changes": {}, "only": {}, "seeds": None, **options})
    store = Store(folder)
    fill(store, study, outcome)
    return parity(study, fill_tables(study, stored_trials(study, store)))


def accuracy(labels: Any, seed: int) -> float | None:
    if labels["setting"] != "FMNIST 100 MLP":
        return None
    return {"FedAvg": 0.89, "FedLAW": 0.80}.get(labels["method"])


def test_every_number_of_the_paper_gets_one_verdict(tmp_path: Path) -> None:
    frame = checked("methods", tmp_path, accuracy).set_index("cell")
    assert len(frame) == 9 * 12, "FedLAW (SWA) is there in two orders"
    assert frame.loc["FedAvg, FMNIST 100 MLP", "verdict"] == "agrees"
    assert frame.loc["FedLAW, FMNIST 100 MLP", "verdict"] == "differs"
    assert frame.loc["FedDF, FMNIST 100 MLP", "verdict"] == "not run"
    assert frame.loc["FedLAW, FMNIST 100 MLP", "difference"] == pytest.approx(80 - 88.51)
    assert frame.loc["FedLAW, FMNIST 100 MLP", "gain"] == pytest.approx(-9.0)
    assert frame.loc["FedLAW, FMNIST 100 MLP", "paper_gain"] == pytest.approx(88.51 - 89.29)


def test_a_cell_that_cannot_be_compared_says_why(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: x\nshows: x\nbase: {method.name: fixed_gamma}\ngrid: {method.gamma: [1.0, 0.9]}\nseeds: [8]\n"
        "tables: {a: {rows: [], columns: [method.gamma]}}\nscales: {paper: {}}\n"
        "reference: {tolerance: 1, a: [[50, 50]], not_comparable: [{where: {method.gamma: [0.9]}, why: no momentum}]}\n"
    )
    frame = checked(str(path), tmp_path / "out", lambda labels, seed: 0.5)
    assert list(frame["verdict"]) == ["agrees", "not comparable"]
    assert frame.loc[1, "remark"] == "no momentum"


def test_a_guessed_setting_is_said_so(tmp_path: Path) -> None:
    frame = checked("client_longtail", tmp_path, lambda labels, seed: 0.6)
    assert frame["remark"].str.contains("setting guessed: proxy.size").all()


def test_a_guess_can_be_about_one_model_one_table_or_one_metric(tmp_path: Path) -> None:
    frame = checked("fixed_gamma", tmp_path / "a", lambda labels, seed: 0.6).set_index("cell")
    assert frame.loc["100, AlexNet, 0.9", "remark"] == "setting guessed: model; setting inferred: clients.holdout"
    assert frame.loc["100, SimpleCNN, 0.9", "remark"] == "setting inferred: clients.holdout"
    assert frame.loc["0.5, ResNet8, 0.9", "remark"] == "setting inferred: clients.epochs, clients.holdout"
    numbers = {**summary(0.5), "middle_gamma": 0.9, "middle_r": 19.0, "critical_round": 13}
    guessed = checked("adaptive_gws", tmp_path / "b", lambda labels, seed: numbers).set_index("table")["remark"]
    assert guessed["r"].startswith("setting guessed: clients.epochs, data.alpha; ")
    assert set(guessed["gamma"]) == {"setting inferred: clients.holdout"}
    frame = checked("gradient_coherence", tmp_path / "c", lambda labels, seed: numbers).set_index("cell")
    assert frame.loc["hybrid, critical_round, FedAvg", "remark"].startswith("setting guessed: method; ")
    assert frame.loc["hybrid, test_accuracy, FedAvg", "remark"] == "setting inferred: clients.holdout"


def test_a_setting_of_a_method_is_marked_where_the_method_has_it(tmp_path: Path) -> None:
    frame = checked("methods", tmp_path, lambda labels, seed: 0.6, seeds=[8]).set_index("cell")["remark"]
    assert frame["FedAvg, C10 100 CNN"] == "setting inferred: clients.holdout"
    assert frame["FedAvg, C10 100 ResNet20"] == "setting inferred: model, clients.holdout"
    assert frame["FedDF, C10 100 CNN"] == "setting inferred: clients.holdout, method.optimizer"
    assert "method.samples" in frame["FedBE, C10 100 CNN"]
    assert "clients.momentum, clients.weight_decay" in frame["FedProx as in the authors' code, C10 100 CNN"]


def test_changed_base_settings_are_not_comparable(tmp_path: Path) -> None:
    frame = checked("client_longtail", tmp_path, lambda labels, seed: 0.6, changes={"rounds": 3})
    assert set(frame["verdict"]) == {"not comparable"}


def test_the_papers_numbers_beside_changed_settings_are_starred(tmp_path: Path) -> None:
    study = expand("client_longtail", "paper", changes={"rounds": 3}, only={}, seeds=[8])
    store = Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.6)
    frame = on_screen(study, stored_trials(study, store), "accuracy", ("", ""))
    assert frame.loc[0, "alpha 100"] == "60.00 [61.12*]"


def test_a_gain_is_compared_only_where_the_baseline_is_in_the_table(tmp_path: Path) -> None:
    study, store = expand("adaptive_gws", "paper", changes={}, only={}, seeds=[8, 9]), Store(tmp_path)
    fill(store, study, lambda labels, seed: {**summary(0.5), "middle_gamma": 0.98})
    frame = parity(study, fill_tables(study, stored_trials(study, store))).set_index("table")
    assert frame.loc["gamma", "paper_gain"].isna().all()
    assert frame.loc["gain", "gain"].isna().all()
    assert set(frame.loc["gain", "tolerance"]) == {1.5}
    assert set(frame.loc["gamma", "tolerance"]) == {0.015}


def test_a_check_of_what_no_table_shows_is_empty(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: x\nshows: x\nbase: {method.name: fixed_gamma}\ngrid: {method.gamma: [1.0, 0.9]}\nseeds: [8]\n"
        "tables: {a: {rows: [], columns: [method.gamma], where: {method.gamma: [0.9]}}}\nscales: {paper: {}}\n"
        "reference: {tolerance: 1, a: [[50]]}\n"
    )
    (tmp_path / "out" / "trials").mkdir(parents=True)
    arguments = ["--scale", "paper", "--only", "method.gamma=1", "--check", "--out", str(tmp_path / "out")]
    code, text, _ = command(main, str(path), *arguments)
    assert code == 0
    assert "1 cells, tolerance 1: 0 agrees, 0 differs, 1 not run, 0 not comparable" in text


def test_each_metric_has_its_tolerance(tmp_path: Path) -> None:
    frame = checked("global_lr", tmp_path, lambda labels, seed: None)
    tolerances = {
        cell.split(", ")[2]: tolerance for cell, tolerance in zip(frame["cell"], frame["tolerance"], strict=True)
    }
    assert tolerances == {"test_accuracy": 2.5, "gamma": 0.01}


def test_the_command_prints_cells_and_claims_and_writes_them(command: Any, tmp_path: Path) -> None:
    study, store = expand("methods", "paper", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, accuracy)
    code, text, _ = command(main, "methods", "--scale", "paper", "--check", "--out", str(tmp_path))
    assert code == 0
    assert "108 cells, tolerance 2.5: 1 agrees, 1 differs, 106 not run, 0 not comparable" in text
    assert "gains over the baseline: 1 of 1 have the paper's sign" in text
    assert "FedLAW beats FedAvg [setting FMNIST 100 MLP]" in text
    assert (tmp_path / "studies" / "methods" / "paper" / "check.csv").is_file()
    assert (tmp_path / "studies" / "methods" / "paper" / "claims.csv").is_file()


def test_at_another_scale_no_number_of_the_paper_is_shown(command: Any, tmp_path: Path) -> None:
    study, store = expand("methods", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    code, text, _ = command(main, "methods", "--check", "--out", str(tmp_path))
    assert code == 0
    assert "cells are not compared with them here" in text
    assert "89.29" not in text
    assert "claims at this scale (95 % intervals" in text
