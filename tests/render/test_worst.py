"""The heat map of what is left at the worst."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedbench.analysis.trials import stored_trials
from fedbench.render.plots.base import PanelData
from fedbench.render.plots.worst import CellValue, Worst
from fedbench.render.report import make_report
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from tests.analysis.helpers import fill

ACCURACY = {"flip": 0.5, "sign flip": 0.3, "ALIE": 0.4}


def outcome(labels: Mapping[str, Any], seed: int) -> Any:
    if labels["method"] == "Krum" or labels["clients.corrupted"] == 0.4:
        return None
    if labels["method"] == "FedLAW" and labels["corruption"] == "ALIE":
        return "diverged" if seed == 9 else 0.9
    return ACCURACY[labels["corruption"]] + 0.01 * (seed - 9)


@pytest.fixture
def scene(tmp_path: Path) -> PanelData:
    study, store = expand("robustness", "quick", changes={}, only={}, seeds=[8, 9, 10]), Store(tmp_path)
    fill(store, study, outcome)
    return PanelData(study, stored_trials(study, store), study.cells, None)


PLOT = Worst(x="clients.corrupted", y="method", over="corruption")


def test_the_worst_is_the_least_mean_and_says_where_it_is(scene: PanelData) -> None:
    found = PLOT.worst(scene, "FedAvg", 0.2)
    assert found is not None
    assert found.label == "sign flip"
    assert found.mean == pytest.approx(30.0)
    assert PLOT.number(found) == "30.00"


def test_a_run_that_diverged_is_the_worst_there_is(scene: PanelData) -> None:
    assert PLOT.worst(scene, "FedLAW", 0.2) == CellValue(None, "ALIE")
    assert PLOT.number(CellValue(None, "ALIE")) == "diverged"


def test_what_was_not_run_is_left_empty(scene: PanelData) -> None:
    assert PLOT.worst(scene, "FedAvg", 0.4) is None


def test_of_costs_the_worst_is_the_largest(scene: PanelData) -> None:
    found = PLOT.model_copy(update={"value": "seconds"}).worst(scene, "FedAvg", 0.2)
    assert found is not None
    assert found.mean == pytest.approx(1.2)


def test_it_is_drawn_where_only_a_part_was_run(tmp_path: Path) -> None:
    study, store = expand("robustness", "quick", changes={}, only={}, seeds=[8]), Store(tmp_path)
    fill(store, study, outcome)
    written = {path.name for path in make_report(study, store).files}
    assert {"worst.png", "worst.svg", "worst.pdf"} <= written
    fill(store, study, lambda labels, seed: "diverged")
    assert "worst.png" in {path.name for path in make_report(study, Store(tmp_path)).files}
