"""Curves of the final model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedbench.render.plots.base import MeanPlot, PanelData, line, register_plot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PROFILES = {  # table -> its columns x and y, their names
    "rescaled": ("gamma", "loss", "rescaled by gamma", "test loss"),
    "landscape": ("step", "loss", "step along the top eigenvector", "training loss"),
    "histogram": ("centre", "density", "parameter", "density"),
}


@register_plot
class Profile(MeanPlot):
    """A table `of` the final model as a curve: its parameters' histogram, its loss rescaled or along an eigenvector."""

    one_cell = True
    kind: Literal["profile"] = "profile"
    of: Literal["histogram", "rescaled", "landscape"]
    """the table"""

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw a curve for every colour."""
        import pandas as pd

        x, y, x_name, y_name = PROFILES[self.of]
        for cell, colour, label in self.coloured(scene):
            tables = [trial.table(self.of) for trial in scene.done(cell)]
            tables = [table for table in tables if len(table)]
            if tables and self.of == "histogram":
                tables = _densities(tables)
            if tables:
                values = pd.concat([table.set_index(x)[y] for table in tables], axis=1)
                line(ax, values, colour, self.dash(cell, scene), label, band=self.banded(scene.study))
        ax.set_xlabel(x_name)
        ax.set_ylabel(y_name)


def _densities(tables: "Sequence[pd.DataFrame]") -> "list[pd.DataFrame]":
    """Histograms with bins of their own as densities at common points; the outermost 2 % are cut off."""
    import pandas as pd

    reach = max(_reach(table) for table in tables)
    points = np.linspace(-reach, reach, 161)
    densities = []
    for table in tables:
        centres = (table["left"] + table["right"]) / 2
        density = table["count"] / table["count"].sum() / (table["right"] - table["left"])
        densities.append(pd.DataFrame({"centre": points, "density": np.interp(points, centres, density)}))
    return densities


def _reach(table: "pd.DataFrame") -> float:
    share = table["count"].cumsum() / table["count"].sum()
    inner = table[(share > 0.01) & (share < 0.99)]
    chosen = inner if len(inner) else table[table["count"] > 0]  # nearly all may lie in one bin
    return float(chosen[["left", "right"]].abs().to_numpy().max())
