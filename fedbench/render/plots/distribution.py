"""How a number is distributed over rounds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedbench.render.plots.base import (
    ColourPlot,
    PanelData,
    add_to_title,
    all_seeds,
    over_rounds,
    register_plot,
    seeds_in_words,
)
from fedbench.render.style import Dash
from fedbench.simulation.record import columns
from fedbench.specs.parts import CurveName

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_FOR_A_HISTOGRAM = 10
REACH = 4.0  # how many standard deviations to both sides a distribution is shown


@register_plot
class Distribution(ColourPlot):
    """How a column `y` of rounds.csv is distributed over rounds and seeds, with the normal density that fits."""

    kind: Literal["distribution"] = "distribution"
    y: CurveName = "r"
    """a column or indicator"""

    def note(self, scenes: Sequence[PanelData]) -> str:
        """Return what the bars count, and what the line is."""
        seeds = seeds_in_words(all_seeds(scenes))
        return f"bars: all rounds of {seeds}; line: normal density of the same median and median deviation"

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw a histogram, and the normal density with the same median and median deviation."""
        import pandas as pd

        groups: dict[tuple[str, Dash, str], list[Any]] = {}
        medians = []
        for cell, colour, label in self.coloured(scene):
            look = (colour, self.dash(cell, scene), label)
            groups.setdefault(look, []).extend(over_rounds(trial, self.y) for trial in scene.done(cell))
        for (colour, dash, label), series in groups.items():
            values = pd.concat(series).dropna().to_numpy(float) if series else np.array([])
            if len(values) < LEAST_FOR_A_HISTOGRAM or np.ptp(values) == 0:
                continue
            median = float(np.median(values))
            std = 1.4826 * float(np.median(np.abs(values - median)))  # of a normal distribution; outliers do not count
            if not std:
                continue
            low, high = max(values.min(), median - REACH * std), min(values.max(), median + REACH * std)
            ax.hist(values, 24, range=(low, high), density=True, color=colour, alpha=0.3, label=label)
            medians.append(f"{median:.3g}")
            x = np.linspace(low, high, 200)
            density = np.exp(-0.5 * ((x - median) / std) ** 2) / (std * np.sqrt(2 * np.pi))
            ax.plot(x, density, color=colour, linestyle=dash)
        if medians:
            add_to_title(ax, f"median {', '.join(medians)}")
        ax.set_xlabel(columns()[self.y].label)
        ax.set_ylabel("density")
