"""Metrics along an axis."""

from textwrap import fill
from typing import TYPE_CHECKING, Literal

from fedbench.base.explain import fields
from fedbench.config import TrialConfig
from fedbench.reports.plots.base import Dash, MeanPlot, Scene, line, listed, register_plot
from fedbench.reports.values import values_by_seed
from fedbench.specs.names import Show, short, shown_as, text_label
from fedbench.specs.parts import MetricName
from fedbench.store.metrics import METRICS

if TYPE_CHECKING:
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
        """The axes that it names."""
        return [*super().axes, self.x]

    def parts(self, scene: Scene) -> list[str]:
        """A column of panels for every metric."""
        return listed(self.y)

    def draw(self, ax: "Axes", scene: Scene) -> None:
        """One line for every colour."""
        import pandas as pd

        order = scene.study.labels(self.x, self.where)
        numbers = [float(label) for label in order if isinstance(label, (int, float))]
        numeric = len(numbers) == len(order) and not (self.log and min(numbers) <= 0)
        positions = numbers if numeric else [float(index) for index in range(len(order))]
        groups: dict[tuple[str, Dash, str], dict[float, dict[int, float]]] = {}
        for cell, colour, label in self.coloured(scene):
            x = positions[order.index(cell.labels[self.x])]
            values = values_by_seed(scene.study, [cell], scene.trials, scene.part, self.show)
            groups.setdefault((colour, self.dash(cell, scene), label), {})[x] = values
        for (colour, dash, label), points in groups.items():
            frame = pd.DataFrame.from_dict(points, orient="index").sort_index().dropna(how="all")
            line(ax, frame, colour, dash, label, band=self.banded(scene.study), marker="o", markersize=3)
        if numeric:
            ax.set_xscale("log" if self.log else "linear")
            ax.set_xticks(numbers, [text_label(label) for label in order])
            ax.minorticks_off()
        else:
            ax.set_xticks(positions, [fill(text_label(label), TICK_WIDTH) for label in order])
        ax.set_xlabel(axis_name(self.x))
        ax.set_ylabel(fill(shown_as(METRICS.get(scene.part).label, self.show), LABEL_WIDTH))


def axis_name(axis: str) -> str:
    """A setting's name with its unit, where it has one; else the axis in short."""
    titles = [item.field.title for item in fields(TrialConfig) if item.key == axis and item.field.title]
    return titles[0] if titles else short(axis)
