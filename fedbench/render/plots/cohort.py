"""What a cohort's data look like, by data size and under learned weights."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from fedbench.base.fields import Count
from fedbench.indicators.heterogeneity import class_shares
from fedbench.render.plots.base import (
    ColourPlot,
    PanelData,
    add_to_title,
    register_plot,
    rounds_there,
    whole_ticks,
)
from fedbench.render.style import COLOURS
from fedbench.store.store import StoredTrial

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@register_plot
class CohortPlot(ColourPlot):
    """The cohort's class distribution in some `rounds` of the first seed: by data sizes, and under learned weights."""

    kind: Literal["cohort"] = "cohort"
    colour: str
    """an axis: bars for every label"""
    rounds: Annotated[list[Count], Field(min_length=1)]
    """which rounds, or the nearest that were recorded"""

    def parts(self, scene: PanelData) -> Sequence[int]:
        """Return a column for every round."""
        table = scene.first_table("clients")
        return rounds_there(self.rounds, table["round"]) if len(table) else []

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw class shares of all data, and of the round's cohort: by data sizes, and under each cell's weights."""
        bars: list[tuple[str, str, np.ndarray]] = []
        for cell, colour, label in self.coloured(scene):
            trial = scene.of_seed(cell)
            if trial is None:
                continue
            overall, by_size, weighted = class_mixes(trial, scene.part)
            bars = bars or [("all clients", "0.7", overall), ("cohort by data size", COLOURS[0], by_size)]
            if not np.allclose(weighted, by_size):
                bars.append((f"cohort, {label}", colour if colour != COLOURS[0] else COLOURS[3], weighted))
        for number, (label, colour, mix) in enumerate(bars):
            offset = (number - (len(bars) - 1) / 2) * 0.8 / len(bars)
            ax.bar(np.arange(len(mix)) + offset, 100 * mix, 0.8 / len(bars), color=colour, label=label)
        add_to_title(ax, f"round {scene.part}")
        ax.set(xlabel="class", ylabel="share of samples (%)")
        whole_ticks(ax.xaxis)


def class_mixes(trial: StoredTrial, round_: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class shares [C]: of all clients, of a round's cohort by data size, and under the weights it got."""
    counts = trial.table("partition").pivot(index="client", columns="class", values="samples").to_numpy()
    clients = trial.table("clients")
    cohort = clients[clients["round"] == round_]
    ids = cohort["client"].to_numpy()
    known = ids < len(counts)  # a proxy set that takes part as a client is not in the partition
    shares, sizes = class_shares(counts)[ids[known]], cohort["samples"].to_numpy(float)[known]
    weights = cohort["lambda"].to_numpy(float)[known]
    return counts.sum(0) / counts.sum(), sizes / sizes.sum() @ shares, weights @ shares
