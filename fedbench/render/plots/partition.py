"""Who holds what."""

from typing import TYPE_CHECKING, Literal

from fedbench.render.plots.base import PanelData, Plot, register_plot, whole_ticks
from fedbench.render.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@register_plot
class PartitionPlot(Plot):
    """Which client holds how many samples of which class, for the first seed."""

    one_cell = True
    size = (3.6, 2.6)
    kind: Literal["partition"] = "partition"

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw a dot for every client and class; its area is the number of samples."""
        table = scene.first_table("partition")
        if table.empty:
            return
        area = 90 * table["samples"] / table["samples"].max()
        ax.scatter(table["client"], table["class"], s=area, color=COLOURS[1], linewidth=0, alpha=0.8)
        ax.set(xlabel=f"client (largest dot: {table['samples'].max()} samples)", ylabel="class")
        whole_ticks(ax.xaxis, ax.yaxis)
        ax.margins(0.06)
