"""The plot of one metric against another."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from fedbench.analysis.trials import stored_trials
from fedbench.render.figures import draw
from fedbench.render.plots.against import Against
from fedbench.render.plots.base import PanelData
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from tests.analysis.helpers import fill, summary


class Seen(Against):
    """A plot whose panels can be looked at afterwards."""

    drawn: ClassVar[list[Axes]] = []

    def draw(self, ax: Axes, scene: PanelData) -> None:
        super().draw(ax, scene)
        self.drawn.append(ax)


def outcome(labels: Any, seed: int) -> dict[str, Any]:
    """Accuracy and label distance that depend on gamma and the seed."""
    gamma = labels["method.gamma"]
    return {**summary(gamma / 2 + 0.01 * (seed - 8)), "label_distance": 1 - gamma + 0.1 * (seed - 8)}


@pytest.mark.parametrize("colour", ["method.gamma", None])
def test_a_point_stands_at_the_means_of_both_metrics(tmp_path: Path, colour: str | None) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, outcome)
    Seen.drawn.clear()
    spec = Seen(x="label_distance", colour=colour, panels=["data.alpha"])
    assert draw(study, stored_trials(study, store), spec, tmp_path / "figure")
    bars = [found for found in Seen.drawn[0].containers if isinstance(found, ErrorbarContainer)]
    gammas = [float(str(label)) for label in study.axes["method.gamma"]]
    for gamma, found in zip(gammas, bars, strict=True):
        ((x, y),) = np.array(found.lines[0].get_data()).T
        assert (x, y) == pytest.approx((1 - gamma + 0.05, 50 * gamma + 0.5)), "means over two seeds"
        ((low, high),) = (segment[:, 1] for segment in found.lines[2][0].get_segments())
        assert high - low == pytest.approx(2 * 0.5**0.5), "the seeds are one point apart"
    names = [text.get_text() for text in Seen.drawn[0].texts]
    assert names == ([] if colour else [f"gamma {gamma:g}" for gamma in gammas])


def test_a_cell_without_both_metrics_has_no_point(tmp_path: Path) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: outcome(labels, seed) if labels["method.gamma"] == 1 else None)
    Seen.drawn.clear()
    draw(study, stored_trials(study, store), Seen(x="label_distance", panels=["data.alpha"]), tmp_path / "figure")
    assert len(Seen.drawn[0].containers) == 1
