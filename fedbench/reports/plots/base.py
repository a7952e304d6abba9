"""What the kinds of figures share: palette, panels, lines with bands."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from fedbench.reports.tables import Trials, finished
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.parts import ColourSpec, text_label
from fedbench.store.store import StoredTrial

# Okabe and Ito's palette, then line styles
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Scene:
    """One panel: the study, the trials, the cells that belong here, and which part of the figure this is."""

    study: ScaledStudy
    trials: Trials
    cells: Sequence[Cell]
    part: Any

    def done(self, cell: Cell) -> list[StoredTrial]:
        """The finished trials of a cell, in the order of its seeds."""
        return [trial for config in cell.trials.values() if (trial := finished(self.trials, config.hash))]

    def first(self) -> StoredTrial | None:
        """The first seed's trial, or that of the next one which is finished: for what cannot be averaged over seeds."""
        return next((trial for cell in self.cells for trial in self.done(cell)), None)

    def coloured(self, spec: ColourSpec) -> list[tuple[Cell, str, str]]:
        """(cell, colour, label) of every cell: the colour goes with its place on the colour axis."""
        if spec.colour is None:
            return [(cell, COLOURS[1], "") for cell in self.cells]
        found = [(cell, self._place(cell, spec), cell.labels[spec.colour]) for cell in self.cells]
        return [(cell, COLOURS[place % len(COLOURS)], text_label(label)) for cell, place, label in found]

    def dash(self, cell: Cell, spec: ColourSpec) -> str:
        """The line style of a cell: another one where the colours begin again."""
        return DASHES[self._place(cell, spec) // len(COLOURS) % len(DASHES)]

    def _place(self, cell: Cell, spec: ColourSpec) -> int:
        """The cell's place on the colour axis."""
        if spec.colour is None:
            return 0
        return self.study.labels(spec.colour, spec.where).index(cell.labels[spec.colour])


@dataclass(frozen=True)
class Kind:
    """A kind of figure: what draws one panel, and the parts that every panel has (one by default)."""

    panel: Callable[[Axes, Scene, Any], None]
    parts: Callable[[Any, Scene], Sequence[Any]] = lambda spec, scene: [None]
    size: tuple[float, float] = (3.1, 2.4)


def short(axis: str) -> str:
    """The last part of an axis' name: alpha for data.alpha."""
    return axis.rpartition(".")[2].replace("_", " ")


def line(place: Axes, values: pd.DataFrame, colour: str, dash: str, label: str, **style: Any) -> None:
    """Mean over the columns (seeds), with a band of one standard deviation, against the index."""
    mean, spread = values.mean(axis=1), values.std(axis=1)
    place.plot(mean.index, mean, dash, color=colour, linewidth=1.3, label=label, **style)
    if values.shape[1] > 1:
        place.fill_between(mean.index, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def add_to_title(place: Axes, text: str) -> None:
    """One more line of a panel's title."""
    place.set_title("\n".join(part for part in (place.get_title(), text) if part), fontsize=9)


def listed(value: str | list[str]) -> list[str]:
    """One name, or several, as a list."""
    return [value] if isinstance(value, str) else value


def rounds_there(wanted: Sequence[int], there: Iterable[int]) -> list[int]:
    """The wanted rounds, each replaced by the nearest one that was recorded."""
    recorded = sorted(set(there))
    return sorted({min(recorded, key=lambda t: (abs(t - w), t)) for w in wanted}) if recorded else []
