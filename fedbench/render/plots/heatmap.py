"""Whose gradients agree with whose."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from fedbench.base.fields import Count
from fedbench.render.plots.base import PanelData, Plot, add_to_title, register_plot, rounds_there

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICKS = 6  # of an axis, at most


@register_plot
class Heatmap(Plot):
    """Cosines of all pairs of clients' gradients in some `rounds` of the first seed."""

    one_cell = True
    size = (2.9, 2.5)
    kind: Literal["heatmap"] = "heatmap"
    rounds: Annotated[list[Count], Field(min_length=1)]
    """which rounds, or the nearest that were recorded"""

    def parts(self, scene: PanelData) -> Sequence[int]:
        """Return a column for every round."""
        table = scene.first_table("coherence")
        return rounds_there(self.rounds, table["round"]) if len(table) else []

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw the cosines of all pairs; the colours cover the largest of them."""
        table = scene.first_table("coherence")
        rows = table[table["round"] == scene.part] if len(table) else table
        if rows.empty:
            ax.set_visible(False)
            return
        ids = sorted({*rows["client"], *rows["other"]})
        matrix = np.full((len(ids), len(ids)), np.nan)
        for client, other, cosine in rows[["client", "other", "cosine"]].itertuples(index=False):
            i, j = ids.index(client), ids.index(other)
            matrix[i, j] = matrix[j, i] = cosine
        reach = float(np.nanmax(np.abs(matrix)))
        image = ax.imshow(matrix, cmap="PuOr_r", vmin=-reach, vmax=reach)
        ax.figure.colorbar(image, ax=ax, shrink=0.8, label="cosine")
        add_to_title(ax, f"round {scene.part}")
        ax.set(xlabel="client", ylabel="client")
        ax.grid(False)
        step = -(-len(ids) // TICKS)
        ax.set_xticks(range(0, len(ids), step), ids[::step])
        ax.set_yticks(range(0, len(ids), step), ids[::step])
