from pathlib import Path

from fedbench.reports.plots.base import Scene, over_rounds, rounds_there
from fedbench.reports.plots.curves import Curves
from fedbench.reports.report import stored_trials
from fedbench.specs.expand import expand
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
