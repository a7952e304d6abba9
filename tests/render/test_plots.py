from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from matplotlib.axes import Axes

from fedbench.analysis.trials import stored_trials
from fedbench.metrics import METRICS
from fedbench.render.figures import draw
from fedbench.render.plots.base import PanelData, Plot, over_rounds, rounds_there
from fedbench.render.plots.curves import Curves
from fedbench.render.plots.distribution import Distribution
from fedbench.render.plots.partition import PartitionPlot
from fedbench.render.plots.profile import _reach
from fedbench.render.plots.weights import WeightsPlot
from fedbench.render.report import make_report
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from tests.analysis.helpers import fill
from tests.helpers import forge


def test_no_two_methods_look_alike() -> None:
    study = expand("local_epochs", "quick", changes={}, only={}, seeds=[8])
    plot = Curves(colour="method", panels=["clients.epochs"])
    scene = PanelData(study, {}, [cell for cell in study.cells if cell.labels["clients.epochs"] == 1], None)
    looks = [(colour, plot.dash(cell, scene)) for cell, colour, _ in plot.coloured(scene)]
    assert len(set(looks)) == len(scene.cells) == 13
    dashes = [dash for _, dash in looks]
    assert len(set(dashes[:6])) == 6  # where there are few, nobody needs to see colours
    assert all(one != next_ for one, next_ in pairwise(dashes))


class Seen(Curves):
    """Curves whose panels can be looked at afterwards."""

    drawn: ClassVar[list[Axes]] = []

    def draw(self, ax: Axes, scene: PanelData) -> None:
        super().draw(ax, scene)
        self.drawn.append(ax)


@pytest.mark.parametrize("share_y", [True, False])
def test_panels_of_one_quantity_share_their_y_axis_unless_the_plot_says_otherwise(
    tmp_path: Path, share_y: bool
) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    low = "round,test_accuracy,test_loss\n1,0.01,2.0\n2,0.02,1.5\n"
    for cell in study.select({"data.alpha": [1]}):
        for config in cell.trials.values():
            forge(store.where(config.hash), "rounds.csv", lambda _: low)
    trials = stored_trials(study, store)
    Seen.drawn.clear()
    draw(study, trials, Seen(colour="method.gamma", panels=["data.alpha"], share_y=share_y), tmp_path / "figure")
    one, two = Seen.drawn
    assert (one.get_ylim() == two.get_ylim()) == share_y
    assert (one.get_ylim()[1] > 5 * two.get_ylim()[1]) != share_y
    assert two.get_ylabel() == ("" if share_y else "test accuracy (%)")
    figure = one.get_figure(root=True)
    assert figure is not None
    assert figure.get_supxlabel() == "line: mean over 2 seeds (8, 9); band: ± standard deviation"


def test_many_methods_have_a_whole_legend_and_lines_without_bands(tmp_path: Path) -> None:
    study, store = (
        expand("aggregators", "paper", changes={}, only={"data.alpha": ["0.1"]}, seeds=[8, 9]),
        Store(tmp_path),
    )
    fill(store, study, lambda labels, seed: 0.5)
    Seen.drawn.clear()
    draw(study, stored_trials(study, store), Seen(colour="method"), tmp_path / "figure")
    (ax,) = Seen.drawn
    figure = ax.get_figure(root=True)
    assert figure is not None
    (legend,) = figure.legends
    texts, methods = [text.get_text() for text in legend.get_texts()], study.labels("method", {})
    assert texts == methods
    assert len(methods) > 30
    extent, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= extent.x0 <= extent.x1 <= whole.x1
    assert whole.y0 <= extent.y0 <= extent.y1 <= whole.y1
    assert ax.get_window_extent().width > 2 * figure.dpi, "the legend takes nothing from the panel"
    assert not ax.collections, "no bands"
    assert figure.get_supxlabel() == "line: mean over 2 seeds (8, 9)"


def note(folder: Path, plot: Plot, outcome: Any, seeds: list[int] | None = None) -> str:
    """What stands below a plot of the smoke test, with a panel for each alpha."""
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=seeds), Store(folder)
    fill(store, study, outcome)
    trials = stored_trials(study, store)
    return plot.note([PanelData(study, trials, study.select({"data.alpha": [alpha]}), None) for alpha in (100, 1)])


def test_a_figure_of_means_says_so_where_seeds_are_missing(tmp_path: Path) -> None:
    text = note(tmp_path / "two", Curves(), lambda labels, seed: "failed" if labels["data.alpha"] * seed == 9 else 0.5)
    assert text == "line: mean over 2 seeds (8, 9, fewer where some are missing); band: ± standard deviation"
    assert note(tmp_path / "one", Curves(), lambda labels, seed: 0.5, seeds=[7]) == "seed 7"


def test_a_figure_of_one_seed_names_it(tmp_path: Path) -> None:
    plot = PartitionPlot()
    assert note(tmp_path / "first", plot, lambda labels, seed: 0.5) == "seed 8"
    assert note(tmp_path / "next", plot, lambda labels, seed: "failed" if seed == 8 else 0.5) == "seed 9"
    text = note(tmp_path / "both", plot, lambda labels, seed: "failed" if labels["data.alpha"] * seed == 8 else 0.5)
    assert text == "seeds 8, 9, by panel"


def test_a_figure_of_single_rounds_and_clients_says_of_which_seeds(tmp_path: Path) -> None:
    assert note(tmp_path / "dots", WeightsPlot(), lambda labels, seed: 0.5).startswith(
        "a dot for every client of seeds 8, 9:"
    )
    text = note(tmp_path / "bars", Distribution(), lambda labels, seed: 0.5, seeds=[8])
    assert text.startswith("bars: all rounds of seed 8; line: normal density")


def test_methods_are_compared_on_a_seed_that_all_of_them_have(tmp_path: Path) -> None:
    study, store = expand("smoke", "quick", changes={}, only={"data.alpha": ["1"]}, seeds=[7, 8, 9]), Store(tmp_path)
    fill(store, study, lambda labels, seed: None if labels["method.gamma"] * seed in (7.0, 0.95 * 8) else 0.5)
    scene = PanelData(study, stored_trials(study, store), study.cells, None)
    assert scene.seed() == 9
    assert all(scene.of_seed(cell) for cell in study.cells)


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

    def fail(self: Curves, ax: object, scene: PanelData) -> None:
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
