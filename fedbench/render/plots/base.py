"""Kinds of plots: the fields in a study file, and how one panel is drawn. Matplotlib is not imported here."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from inspect import isabstract
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from fedbench.analysis.values import Trials, finished
from fedbench.base.errors import ConfigError
from fedbench.base.fields import fixed_name
from fedbench.render.style import COLOURS, DASHES, MARKERS, Dash, colour_of, number_of, slots
from fedbench.simulation.record import columns
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import text_label
from fedbench.specs.parts import PLOTS, PlotSpec
from fedbench.store.columns import Column
from fedbench.store.store import StoredTrial

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


@dataclass(frozen=True)
class PanelData:
    """What one panel shows: the study, its trials, the cells of the panel, and which part of the panel is drawn."""

    study: ScaledStudy
    trials: Trials
    cells: Sequence[Cell]
    part: Any

    def done(self, cell: Cell) -> list[StoredTrial]:
        """Return the finished trials of a cell, in the order of its seeds."""
        return [trial for config in cell.trials.values() if (trial := finished(self.trials, config.hash))]

    def seed(self) -> int | None:
        """Return the first seed that all cells have finished, else the one that most have.

        It is for what cannot be averaged.
        """
        done = [seed for cell in self.cells for seed, c in cell.trials.items() if finished(self.trials, c.hash)]
        return max(
            dict.fromkeys(seed for cell in self.cells for seed in cell.trials if seed in done),
            key=done.count,
            default=None,
        )

    def of_seed(self, cell: Cell) -> StoredTrial | None:
        """Return the trial of a cell with the seed of `seed`, if it is finished."""
        seed = self.seed()
        return finished(self.trials, cell.trials[seed].hash) if seed is not None and seed in cell.trials else None

    def first(self) -> StoredTrial | None:
        """Return the trial with that seed in the first cell that has it."""
        return next((trial for cell in self.cells if (trial := self.of_seed(cell))), None)

    def first_table(self, name: str) -> "pd.DataFrame":
        """Return a table of that trial; empty if there is none."""
        import pandas as pd

        trial = self.first()
        return trial.table(name) if trial else pd.DataFrame()


Scene = PanelData  # its name until 0.1, in plugins


class Plot(PlotSpec):
    """A kind of plot. A subclass fixes `kind` to its name and draws a panel; `size` is that of a panel, in inches."""

    size: ClassVar[tuple[float, float]] = (3.1, 2.4)

    def parts(self, scene: PanelData) -> Sequence[Any]:
        """Return the parts that every panel has, side by side; none if there is nothing to show."""
        return [None]

    def note(self, scenes: Sequence[PanelData]) -> str:
        """Return the line below the figure, given its panels: by default the seed that is shown."""
        seeds = [scene.seed() for scene in scenes]
        return seeds_in_words(seeds[:1]) if len(set(seeds)) == 1 else f"{seeds_in_words(seeds)}, by panel"

    @abstractmethod
    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw one part of a panel: `scene.part`."""


class QuantityPlot(Plot):
    """A figure with a quantity on its y axes; `parts_differ`: each part has a quantity of its own."""

    parts_differ: ClassVar[bool] = False
    share_y: bool = True
    """panels that show the same quantity have the same y axis; false lets each have its own"""


class ColourPlot(QuantityPlot):
    """A figure that has a colour for every value of an axis."""

    colour: str | None = None
    """an axis: a colour for every label"""

    @property
    def axes(self) -> list[str]:
        """Return the axes that the plot names."""
        return [*self.panels, *([self.colour] if self.colour else [])]

    def coloured(self, scene: PanelData) -> list[tuple[Cell, str, str]]:
        """Return every cell with its colour, which follows from its label on the colour axis, and that label."""
        if self.colour is None:
            return [(cell, COLOURS[1], "") for cell in scene.cells]
        return [
            (cell, colour_of(self._slot(cell, scene)), text_label(cell.labels[self.colour])) for cell in scene.cells
        ]

    def dash(self, cell: Cell, scene: PanelData) -> Dash:
        """Return the line style of a cell."""
        return DASHES[number_of(self._slot(cell, scene))]

    def marker(self, cell: Cell, scene: PanelData) -> str:
        """Return the marker of a cell."""
        return MARKERS[number_of(self._slot(cell, scene))]

    def position(self, cell: Cell, scene: PanelData) -> int:
        """Return the position of the label of a cell among those of the axis, from 0."""
        labels = scene.study.labels(self.colour, self.where) if self.colour else []
        return labels.index(cell.labels[self.colour]) if self.colour else 0

    def _slot(self, cell: Cell, scene: PanelData) -> int:
        return slots(scene.study.labels(self.colour, self.where))[cell.labels[self.colour]] if self.colour else 0


class MeanPlot(ColourPlot):
    """A figure of lines, see `line`: means over seeds, with a band unless there are more of them than colours."""

    def banded(self, study: ScaledStudy) -> bool:
        """Return whether lines have bands: many would hide each other."""
        return self.colour is None or len(study.labels(self.colour, self.where)) <= len(COLOURS)

    def note(self, scenes: Sequence[PanelData]) -> str:
        """Return what line and band are, and over which seeds."""
        seeds = all_seeds(scenes)
        if len(seeds) == 1:
            return seeds_in_words(seeds)
        some = any(len(scene.done(cell)) < len(seeds) for scene in scenes for cell in scene.cells)
        fewer = ", fewer where some are missing" if some else ""
        band = "; band: ± standard deviation" if all(self.banded(scene.study) for scene in scenes) else ""
        return f"line: mean over {len(seeds)} seeds ({', '.join(map(str, seeds))}{fewer}){band}"


P = TypeVar("P", bound=Plot)


def register_plot(plot: type[P]) -> type[P]:
    """Decorate a Plot subclass; its name is the one that its field `kind` fixes."""
    if isabstract(plot):
        raise ConfigError(f"{plot.__name__}: a plot must have a method draw(self, ax, scene)")
    PLOTS.add(fixed_name(plot, "kind"), plot)
    return plot


def line(
    ax: "Axes", values: "pd.DataFrame", colour: str, dash: Dash, label: str, *, band: bool = True, **style: Any
) -> None:
    """Draw the mean over the columns (seeds) against the index, by default with a band of one standard deviation."""
    mean = values.mean(axis=1)
    ax.plot(mean.index, mean, linestyle=dash, color=colour, linewidth=1.3, label=label, **style)
    if band and values.shape[1] > 1:
        spread = values.std(axis=1)
        ax.fill_between(mean.index, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def by_round(trials: Sequence[StoredTrial], name: str) -> "pd.DataFrame":
    """Return a column of rounds.csv, or an indicator, by round, with a column for every trial that has it.

    Rounds that one of these trials does not have are left out.
    """
    import pandas as pd

    factor = columns()[name].factor
    found = [(rounds, factor * values) for rounds, values in (_recorded(t, name) for t in trials) if len(rounds)]
    if not found:
        return pd.DataFrame()
    first, _ = found[0]
    if all(np.array_equal(rounds, first) for rounds, _ in found):  # to align them would take much longer
        return pd.DataFrame(np.column_stack([values for _, values in found]), index=pd.Index(first, name="round"))
    return pd.concat([_series(rounds, values) for rounds, values in found], axis=1).dropna()


def over_rounds(trial: StoredTrial, name: str) -> "pd.Series[float]":
    """Return a column of rounds.csv, or an indicator, of one trial by round; accuracies are in percent."""
    rounds, values = _recorded(trial, name)
    return _series(rounds, columns()[name].factor * values)


def _recorded(trial: StoredTrial, name: str) -> tuple[Column, Column]:
    """Return the rounds in which a column of rounds.csv, or an indicator, has a number, and the numbers."""
    rounds = trial.rounds
    if name in rounds:
        known = ~np.isnan(rounds[name])
        return rounds["round"][known], rounds[name][known]
    table = trial.table("indicators")
    if table.empty:
        return np.array([], dtype=int), np.array([], dtype=float)
    rows = table[table["name"] == name]
    return rows["round"].to_numpy(), rows["value"].to_numpy()


def _series(rounds: Column, values: Column) -> "pd.Series[float]":
    import pandas as pd

    return pd.Series(values, index=pd.Index(rounds, name="round"))


def all_seeds(scenes: Sequence[PanelData]) -> list[int]:
    """Return all seeds of some panels."""
    return list(dict.fromkeys(seed for scene in scenes for cell in scene.cells for seed in cell.trials))


def seeds_in_words(seeds: Sequence[int | None]) -> str:
    """Return seeds as text, such as "seed 8" or "seeds 8, 9"."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def add_to_title(ax: "Axes", text: str) -> None:
    """Add one more line to a panel's title."""
    ax.set_title("\n".join(part for part in (ax.get_title(), text) if part), fontsize=9)


def whole_ticks(*axes: "Axis") -> None:
    """Put ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def listed(value: str | list[str]) -> list[str]:
    """Return one name, or several, as a list."""
    return [value] if isinstance(value, str) else value


def rounds_there(wanted: Sequence[int], there: Iterable[int]) -> list[int]:
    """Return the wanted rounds, each replaced by the nearest one that was recorded."""
    recorded = sorted(set(there))
    return sorted({min(recorded, key=lambda t: (abs(t - w), t)) for w in wanted}) if recorded else []
