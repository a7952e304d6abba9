"""What weight clients get, against what they hold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedbench.metrics.weights import client_data
from fedbench.render.plots.base import ColourPlot, PanelData, all_seeds, register_plot, seeds_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@register_plot
class WeightsPlot(ColourPlot):
    """Each client's accumulated weight against its data size and its heterogeneity degree; all seeds."""

    kind: Literal["weights"] = "weights"

    def parts(self, scene: PanelData) -> Sequence[str]:
        """Return the two parts: against data size, and against heterogeneity degree."""
        return ["data size (samples)", "heterogeneity degree"]

    def note(self, scenes: Sequence[PanelData]) -> str:
        """Return what a dot stands for."""
        return f"a dot for every client of {seeds_in_words(all_seeds(scenes))}: its mean over rounds"

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw a dot for every client of every seed: its mean weight over rounds."""
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        for cell, colour, label in self.coloured(scene):
            data = [(client_data(trial), trial.summary["rounds"]) for trial in scene.done(cell)]
            if not data:
                continue
            y = np.concatenate([100 * sums / rounds for (sums, _, _), rounds in data])
            x = np.concatenate([sizes if scene.part.startswith("data") else degrees for (_, sizes, degrees), _ in data])
            marker = self.marker(cell, scene)
            ax.scatter(x, y, s=14, color=colour, marker=marker, alpha=0.6, linewidth=0, label=label)
        ax.set(xlabel=scene.part, ylabel="mean weight (%)", xscale="log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
