from pathlib import Path

from fedbench.reports.plots.base import Scene, rounds_there
from fedbench.reports.plots.kinds import KINDS
from fedbench.reports.plots.series import over_rounds
from fedbench.reports.report import stored_trials
from fedbench.specs.expand import expand
from fedbench.specs.parts import CurvesSpec
from fedbench.specs.study import PLOTS
from fedbench.store.store import Store
from tests.reports.helpers import fill


def test_every_kind_of_plot_in_a_study_file_can_be_drawn() -> None:
    assert set(KINDS) == set(PLOTS)


def test_no_two_methods_look_alike() -> None:
    study = expand("local_epochs", "quick", changes={}, only={}, seeds=[8])
    spec = CurvesSpec(colour="method", panels=["clients.epochs"])
    scene = Scene(study, {}, [cell for cell in study.cells if cell.labels["clients.epochs"] == 1], None)
    looks = {(colour, scene.dash(cell, spec)) for cell, colour, _ in scene.coloured(spec)}
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
