"""How the loss depends on three clients' weights."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedbench.base.fields import Count
from fedbench.render.plots.base import PanelData, Plot, add_to_title, register_plot, rounds_there
from fedbench.render.style import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])  # of clients 0, 1 and 2
LAMBDAS = ["lambda_0", "lambda_1", "lambda_2"]


@register_plot
class SimplexPlot(Plot):
    """Test loss over the weights of three clients in one `round`, and the best weights of every round; first seed."""

    one_cell = True
    size = (3.0, 2.7)
    kind: Literal["simplex"] = "simplex"
    round: Count
    """of the landscape, or the nearest that was recorded"""

    def parts(self, scene: PanelData) -> Sequence[str]:
        """Return the landscape of one round, and the best weights of all rounds."""
        return ["landscape", "trajectory"]

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw the triangle of weights: a corner is a client with all the weight; a cross marks data-size weights."""
        table = scene.first_table("simplex")
        if table.empty:
            return
        best = table.loc[table.groupby("round")["loss"].idxmin()]
        if scene.part == "landscape":
            self._landscape(ax, table, best)
        else:
            _trajectory(ax, best)
        sizes = scene.first_table("partition").groupby("client")["samples"].sum().to_numpy(float)
        ax.plot(*(sizes / sizes.sum() @ CORNERS), "x", color="black", markersize=7, label="FedAvg")
        ax.plot(*np.vstack([CORNERS, CORNERS[:1]]).T, color="0.4", linewidth=0.8)
        for number, (x, y) in enumerate(CORNERS):
            low = y == 0
            ax.text(x, y - 0.05 if low else y + 0.03, f"client {number}", ha="center", va="top" if low else "bottom")
        ax.set_aspect("equal")
        ax.axis("off")
        ax.set(xlim=(-0.15, 1.15), ylim=(-0.15, 1.0))

    def _landscape(self, ax: "Axes", table: "pd.DataFrame", best: "pd.DataFrame") -> None:
        (round_,) = rounds_there([self.round], table["round"])
        rows = table[table["round"] == round_]
        points = rows[LAMBDAS].to_numpy() @ CORNERS
        image = ax.tricontourf(points[:, 0], points[:, 1], rows["loss"], 14, cmap="cividis_r")
        _colorbar(ax, image, "test loss")
        x, y = (best[LAMBDAS].to_numpy() @ CORNERS)[list(best["round"]).index(round_)]
        ax.plot(x, y, "*", color=COLOURS[2], markersize=9, label="best weights")
        add_to_title(ax, f"loss in round {round_}")


def _trajectory(ax: "Axes", best: "pd.DataFrame") -> None:
    points = best[LAMBDAS].to_numpy() @ CORNERS
    dots = ax.scatter(points[:, 0], points[:, 1], 14, best["round"], cmap="viridis")
    _colorbar(ax, dots, "round")
    add_to_title(ax, "best weights of every round")


def _colorbar(ax: "Axes", image: Any, label: str) -> None:
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label=label)
