"""What is left at the worst: a heat map over two axes, of the worst along a third."""

from collections.abc import Sequence
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from fedbench.analysis.values import values_by_seed
from fedbench.base.fields import invalid
from fedbench.metrics import METRICS
from fedbench.render.plots.base import PanelData, Plot, all_seeds, register_plot
from fedbench.render.plots.sweep import axis_name
from fedbench.specs.expand import Cell
from fedbench.specs.names import Label, short, text_label
from fedbench.specs.parts import MetricName

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_WIDTH = 14  # characters in a line of a cell's label
FEW = 8  # rows of cells that have room for larger letters


class CellValue(NamedTuple):
    """The worst of some cells: its mean over seeds (None where a run of it diverged), and its label."""

    mean: float | None
    label: str


@register_plot
class Worst(Plot):
    """A metric's worst value over the axis `over`, as a heat map of `y` against `x`; each cell names what was worst.

    A cell with a run that diverged is the worst there is.
    """

    one_cell = True
    size = (5.2, 4.2)
    kind: Literal["worst"] = "worst"
    x: str
    """an axis: the columns"""
    y: str
    """an axis: the rows"""
    over: str
    """an axis, along which the worst is taken"""
    value: MetricName = "test_accuracy"
    """the metric"""

    @model_validator(mode="after")
    def _check(self) -> "Worst":
        if METRICS.get(self.value).better is None:
            known = ", ".join(name for name, metric in METRICS.items() if metric.better)
            raise invalid(f"value = {self.value!r}: neither high nor low values are worse; must be one of {known}")
        return self

    @property
    def axes(self) -> list[str]:
        """Return the axes that the plot names."""
        return [*self.panels, self.x, self.y, self.over]

    def note(self, scenes: Sequence[PanelData]) -> str:
        """Return what a number stands for."""
        seeds = all_seeds(scenes)
        of = f"seed {seeds[0]}" if len(seeds) == 1 else f"mean over {len(seeds)} seeds"
        return f"{of} at the worst {short(self.over)}, which is named below the number"

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw colours from the worst to the best number; a run that diverged has the darkest."""
        columns, rows = (scene.study.labels(axis, self.where) for axis in (self.x, self.y))
        found = {(row, column): self.worst(scene, row, column) for row in rows for column in columns}
        matrix = np.array([[mean_of(found[row, column]) for column in columns] for row in rows])
        known = matrix[np.isfinite(matrix)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        lower = METRICS.get(self.value).better == "lower"
        shown = np.where(np.isneginf(matrix), high if lower else low, matrix)
        letters = 8 if len(rows) <= FEW else 6
        ax.imshow(shown, cmap="viridis", vmin=low, vmax=max(high, low + 1e-9), aspect="auto")
        for (row, column), worst in found.items():
            if worst:
                place, level = (columns.index(column), rows.index(row)), mean_of(worst)
                dark = level < low + 0.6 * (high - low)
                text = f"{self.number(worst)}\n{fill(worst.label, LABEL_WIDTH)}"
                ax.text(*place, text, ha="center", va="center", fontsize=letters, color="white" if dark else "black")
        ax.set_xticks(range(len(columns)), [text_label(label) for label in columns])
        ax.set_yticks(range(len(rows)), [text_label(label) for label in rows])
        ax.set(xlabel=axis_name(self.x), title="\n".join(filter(None, (ax.get_title(), self.metric_label))))
        ax.grid(False)

    @property
    def metric_label(self) -> str:
        """Return the label of the metric, with its unit."""
        return METRICS.get(self.value).label

    def worst(self, scene: PanelData, row: Label, column: Label) -> CellValue | None:
        """Return the worst of the cells with these labels; None if none of them was run."""
        cells = [c for c in scene.cells if c.labels[self.y] == row and c.labels[self.x] == column]
        found = [worst for cell in cells if (worst := self.value_of(scene, cell))]
        sign = -1 if METRICS.get(self.value).better == "lower" else 1
        return min(found, key=lambda item: -np.inf if item.mean is None else sign * item.mean, default=None)

    def value_of(self, scene: PanelData, cell: Cell) -> CellValue | None:
        """Return the mean of a cell over seeds; None if it was not run."""
        label = text_label(cell.labels[self.over])
        there = [trial for config in cell.trials.values() if (trial := scene.trials.get(config.hash))]
        if any(trial.status == "diverged" for trial in there):
            return CellValue(None, label)
        values = values_by_seed(scene.study, [cell], scene.trials, self.value, "value")
        return CellValue(fmean(values.values()), label) if values else None

    def number(self, worst: CellValue) -> str:
        """Return the number of a cell as text."""
        return "diverged" if worst.mean is None else f"{worst.mean:z.{METRICS.get(self.value).digits}f}"


def mean_of(value: CellValue | None) -> float:
    """Return the mean as a number: NaN where nothing was run, -inf where a run diverged."""
    if value is None:
        return float("nan")
    return -float("inf") if value.mean is None else value.mean
