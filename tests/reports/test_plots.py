from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedbench.reports.plots.base import Scene, over_rounds, rounds_there
from fedbench.reports.plots.curves import Curves
from fedbench.reports.plots.profile import _reach
from fedbench.reports.report import make_report, stored_trials
from fedbench.specs.expand import expand
from fedbench.store.metrics import METRICS
from fedbench.store.store import Store
from tests.reports.helpers import fill


def test_no_two_methods_look_alike() -> None:
    study = expand("local_epochs", "quick", changes={}, only={}, seeds=[8])
    plot = Curves(colour="method", panels=["clients.epochs"])
    scene = Scene(study, {}, [cell for cell in study.cells if cell.labels["clients.epochs"] == 1], None)
    looks = {(colour, plot.dash(cell, scene)) for cell, colour, _ in plot.coloured(scene)}
    assert len(looks) == len(scene.cells) == 12


def test_curves_are_columns_of_rounds_in_percent(tmp_path: Path) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=[8]), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    trial = next(iter(stored_trials(study, store).values()))
    assert over_rounds(trial, "test_accuracy").to_dict() == {1: 10.0, 2: 20.0}
    assert over_rounds(trial, "hessian_top1").empty


def test_a_round_that_was_not_recorded_is_replaced_by_the_nearest_one() -> None:
    assert rounds_there([1, 13, 100], [1, 5, 10, 25]) == [1, 10, 25]
    assert rounds_there([3], []) == []


def test_no_report_dies_on_one_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=[8]), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)

    def fail(self: Curves, ax: object, scene: Scene) -> None:
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr(Curves, "draw", fail)
    with pytest.warns(UserWarning, match="plot 'curves' cannot be drawn .ZeroDivisionError: no luck."):
        report = make_report(study, store)
    assert "table.csv" in {path.name for path in report.files}


def test_a_histogram_with_nearly_all_in_one_bin_has_a_reach() -> None:
    table = pd.DataFrame({"left": [-1.0, -0.1, 0.1], "right": [-0.1, 0.1, 1.0], "count": [0, 999, 1]})
    assert _reach(table) == 1.0


def test_a_metric_that_fails_leaves_its_cells_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=[8]), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)

    def fail(trial: object) -> float:
        raise KeyError("nothing there")

    broken = [(name, replace(m, read=fail) if name == "test_accuracy" else m) for name, m in METRICS.items()]
    monkeypatch.setattr(METRICS, "_items", dict(broken))
    with pytest.warns(UserWarning, match="metric 'test_accuracy' cannot be read .KeyError"):
        report = make_report(study, store)
    assert all(place.numbers["mean"] is None for place in report.tables["accuracy"])
