"""Lines over rounds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedbench.render.plots.base import (
    MeanPlot,
    PanelData,
    by_round,
    line,
    listed,
    register_plot,
    whole_ticks,
)
from fedbench.render.style import COLOURS, DASHES
from fedbench.simulation.record import columns
from fedbench.specs.parts import CurveName
from fedbench.store.store import StoredTrial

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@register_plot
class Curves(MeanPlot):
    """Columns `y` of rounds.csv, or indicators, over rounds: mean over seeds and a band of one standard deviation."""

    one_cell = True
    kind: Literal["curves"] = "curves"
    y: CurveName | list[CurveName] = "test_accuracy"
    """a column or indicator, or several, with a line style each"""
    critical: bool = False
    """mark where the local gradient coherence reaches zero"""

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw a curve for every colour and every y."""
        known, names = columns(), listed(self.y)
        several = len(names) > 1
        for cell, colour, label in self.coloured(scene):
            for number, name in enumerate(names):
                values = by_round(scene.done(cell), name)
                if values.empty:
                    continue
                text = ", ".join(part for part in (label, known[name].short or name if several else "") if part)
                tint = colour if self.colour or not several else COLOURS[number]
                dash = DASHES[number % len(DASHES)] if several else self.dash(cell, scene)
                start = (
                    0.2 * (self.position(cell, scene) % 5 + 0.5) / 5
                )  # so that markers of lines do not hide each other
                marks: dict[str, Any] = {"marker": self.marker(cell, scene), "markersize": 4, "markevery": (start, 0.2)}
                style = {**marks} if label else {}
                line(ax, values, tint, dash, text, band=self.banded(scene.study), **style)
            if self.critical:
                _mark_critical(ax, scene.done(cell), colour if self.colour else "0.4")
        first = known[names[0]]
        ax.set_ylabel((several and first.axis) or first.label)
        if first.log:
            ax.set_yscale("log", nonpositive="clip")
        ax.set_xlabel("round")
        whole_ticks(ax.xaxis)


def _mark_critical(ax: "Axes", done: Sequence[StoredTrial], colour: str) -> None:
    """Draw a thin line at zero, and one at the mean critical point."""
    ax.axhline(0, color="0.5", linewidth=0.6)
    critical = [trial.summary["critical_round"] for trial in done if trial.summary.get("critical_round")]
    if critical:
        ax.axvline(float(np.mean(critical)), color=colour, linewidth=0.8, linestyle=(0, (1, 2)), label="critical point")
