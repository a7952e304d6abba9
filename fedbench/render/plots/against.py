"""One metric against another."""

from collections.abc import Sequence
from statistics import fmean, stdev
from textwrap import fill
from typing import TYPE_CHECKING, Literal

from fedbench.analysis.values import values_by_seed
from fedbench.metrics import METRICS
from fedbench.render.plots.base import ColourPlot, PanelData, all_seeds, register_plot, seeds_in_words
from fedbench.specs.expand import Cell
from fedbench.specs.names import Show, named, shown_as
from fedbench.specs.parts import MetricName

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_WIDTH = 50  # characters in a line of an axis' label


@register_plot
class Against(ColourPlot):
    """Metric `y` against metric `x`: a point for each cell, the mean over seeds, with a bar of one standard deviation.

    Without `colour`, the points are named.
    """

    size = (6.4, 4.6)
    kind: Literal["against"] = "against"
    x: MetricName
    """the metric on the x axis"""
    y: MetricName = "test_accuracy"
    """the metric on the y axis"""
    show: Show = "value"
    """y itself, or its difference or relative gain (in %) to the baseline"""

    def note(self, scenes: Sequence[PanelData]) -> str:
        """What a point is, and of which seeds."""
        seeds = all_seeds(scenes)
        return f"point: mean over {seeds_in_words(seeds)}" + ("; bar: ± standard deviation" if len(seeds) > 1 else "")

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Place a point at the means over the seeds that have both metrics."""
        for cell, colour, label in self.coloured(scene):
            x = values_by_seed(scene.study, [cell], scene.trials, self.x, "value")
            y = values_by_seed(scene.study, [cell], scene.trials, self.y, self.show)
            if not (seeds := [seed for seed in x if seed in y]):
                continue
            at = fmean(x[seed] for seed in seeds), fmean(y[seed] for seed in seeds)
            bar = stdev(y[seed] for seed in seeds) if len(seeds) > 1 else None
            marker = self.marker(cell, scene)
            bar_colour = (colour, 0.35)
            ax.errorbar(*at, yerr=bar, color=colour, ecolor=bar_colour, marker=marker, linestyle="none", label=label)
            if self.colour is None:
                ax.annotate(self.name_of(cell, scene), at, (4, 2), textcoords="offset points", fontsize=6)
        ax.set_xlabel(fill(METRICS.get(self.x).label, LABEL_WIDTH))
        ax.set_ylabel(fill(shown_as(METRICS.get(self.y).label, self.show), LABEL_WIDTH))

    def name_of(self, cell: Cell, scene: PanelData) -> str:
        """What tells a cell from the others in its panel."""
        axes = [axis for axis in cell.labels if len({other.labels[axis] for other in scene.cells}) > 1]
        return ", ".join(named(axis, cell.labels[axis]) for axis in axes)
