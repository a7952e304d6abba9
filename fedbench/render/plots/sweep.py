"""Metrics along an axis."""

from dataclasses import replace
from textwrap import fill
from typing import TYPE_CHECKING, Literal

from fedbench.analysis.values import values_by_seed
from fedbench.base.explain import fields
from fedbench.config import TrialConfig
from fedbench.metrics import METRICS
from fedbench.render.plots.base import MeanPlot, PanelData, line, listed, register_plot
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Label, Show, short, shown_as, text_label
from fedbench.specs.parts import MetricName

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LABEL_WIDTH = 30  # characters in a line of an axis' label
TICK_WIDTH = 12  # and of a tick's


@register_plot
class Sweep(MeanPlot):
    """Metrics `y` along an axis `x`: mean over seeds with a band of one standard deviation."""

    one_cell = True
    parts_differ = True
    kind: Literal["sweep"] = "sweep"
    x: str
    """an axis; values that are no numbers, or not all above zero where `log` asks for it, are evenly spaced"""
    y: MetricName | list[MetricName] = "test_accuracy"
    """a metric, or several, a column of panels each"""
    show: Show = "value"
    """the value itself, or its difference or relative gain (in %) to the baseline"""
    log: bool = False
    """a logarithmic axis"""

    @property
    def axes(self) -> list[str]:
        """Return the axes that the plot names."""
        return [*super().axes, self.x]

    def parts(self, scene: PanelData) -> list[str]:
        """Return a column of panels for every metric."""
        return listed(self.y)

    def places(self, study: ScaledStudy) -> tuple[list[float], bool]:
        """Return where the labels are on the x axis: at their own numbers, or else counted from zero.

        And which it is.
        """
        order = study.labels(self.x, self.where)
        numbers = [float(label) for label in order if isinstance(label, (int, float))]
        numeric = len(numbers) == len(order) and not (self.log and min(numbers) <= 0)
        return (numbers if numeric else [float(index) for index in range(len(order))]), numeric

    def lines(self, scene: PanelData) -> list[tuple[Cell, "pd.DataFrame"]]:
        """For every colour its first cell, and its values: a row a place along the axis, a column a seed."""
        import pandas as pd

        places = dict(zip(scene.study.labels(self.x, self.where), self.places(scene.study)[0], strict=True))
        groups: dict[Label | None, tuple[Cell, dict[float, dict[int, float]]]] = {}
        for cell in scene.cells:
            _, points = groups.setdefault(cell.labels[self.colour] if self.colour else None, (cell, {}))
            values = values_by_seed(scene.study, [cell], scene.trials, scene.part, self.show)
            points[places[cell.labels[self.x]]] = values
        return [
            (cell, pd.DataFrame.from_dict(points, orient="index").sort_index().dropna(how="all"))
            for cell, points in groups.values()
        ]

    def quantity(self, metric: str) -> str:
        """Return the label of the y axis."""
        return shown_as(METRICS.get(metric).label, self.show)

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw a line for every colour."""
        for cell, frame in self.lines(scene):
            ((_, colour, label),) = self.coloured(replace(scene, cells=[cell]))
            dash = self.dash(cell, scene)
            line(ax, frame, colour, dash, label, band=self.banded(scene.study), marker="o", markersize=3)
        order = scene.study.labels(self.x, self.where)
        positions, numeric = self.places(scene.study)
        if numeric:
            ax.set_xscale("log" if self.log else "linear")
            ax.set_xticks(positions, [text_label(label) for label in order])
            ax.minorticks_off()
        else:
            ax.set_xticks(positions, [fill(text_label(label), TICK_WIDTH) for label in order])
        ax.set_xlabel(axis_name(self.x))
        ax.set_ylabel(fill(self.quantity(scene.part), LABEL_WIDTH))


def axis_name(axis: str) -> str:
    """Return a setting's name with its unit, if it has one; else the short name of the axis."""
    titles = [item.field.title for item in fields(TrialConfig) if item.key == axis and item.field.title]
    return titles[0] if titles else short(axis)
