"""What a kind of plot is: its fields in a study file, and how one panel is drawn. Matplotlib is not imported here."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from inspect import isabstract
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fedbench.base.errors import ConfigError
from fedbench.base.fields import fixed_name
from fedbench.reports.values import Trials, finished
from fedbench.simulation.record import columns
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import text_label
from fedbench.specs.parts import PLOTS, PlotSpec
from fedbench.store.store import StoredTrial

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

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

    def first_table(self, name: str) -> "pd.DataFrame":
        """A table of that trial; empty if there is none."""
        import pandas as pd

        trial = self.first()
        return trial.table(name) if trial else pd.DataFrame()


class Plot(PlotSpec):
    """A kind of plot. A subclass fixes `kind` to its name and draws a panel; `size` is that of a panel, in inches."""

    size: ClassVar[tuple[float, float]] = (3.1, 2.4)

    def parts(self, scene: Scene) -> Sequence[Any]:
        """What every panel is made up of, side by side; none if there is nothing to show."""
        return [None]

    @abstractmethod
    def draw(self, ax: "Axes", scene: Scene) -> None:
        """Draw one part of a panel: `scene.part`."""


class ColourPlot(Plot):
    """A figure that has a colour for every value of an axis."""

    colour: str | None = None
    """an axis: a colour for every label"""

    @property
    def axes(self) -> list[str]:
        """The axes that it names."""
        return [*self.panels, *([self.colour] if self.colour else [])]

    def coloured(self, scene: Scene) -> list[tuple[Cell, str, str]]:
        """(cell, colour, label) of every cell: the colour goes with its position on the colour axis."""
        if self.colour is None:
            return [(cell, COLOURS[1], "") for cell in scene.cells]
        return [
            (cell, COLOURS[self._position(cell, scene) % len(COLOURS)], text_label(cell.labels[self.colour]))
            for cell in scene.cells
        ]

    def dash(self, cell: Cell, scene: Scene) -> str:
        """The line style of a cell: another one where the colours begin again."""
        return DASHES[self._position(cell, scene) // len(COLOURS) % len(DASHES)]

    def _position(self, cell: Cell, scene: Scene) -> int:
        if self.colour is None:
            return 0
        return scene.study.labels(self.colour, self.where).index(cell.labels[self.colour])


P = TypeVar("P", bound=Plot)


def register_plot(plot: type[P]) -> type[P]:
    """Decorate a Plot subclass; its name is the one that its field `kind` fixes."""
    if isabstract(plot):
        raise ConfigError(f"{plot.__name__}: a plot must have a method draw(self, ax, scene)")
    PLOTS.add(fixed_name(plot, "kind"), plot)
    return plot


def line(ax: "Axes", values: "pd.DataFrame", colour: str, dash: str, label: str, **style: Any) -> None:
    """Mean over the columns (seeds), with a band of one standard deviation, against the index."""
    mean, spread = values.mean(axis=1), values.std(axis=1)
    ax.plot(mean.index, mean, dash, color=colour, linewidth=1.3, label=label, **style)
    if values.shape[1] > 1:
        ax.fill_between(mean.index, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def over_rounds(trial: StoredTrial, name: str) -> "pd.Series[float]":
    """A column of rounds.csv or an indicator, by round, as people read it (accuracies in percent)."""
    import pandas as pd

    factor, rounds = columns()[name].factor, trial.table("rounds").set_index("round")
    if name in rounds:
        return factor * rounds[name].dropna()
    table = trial.table("indicators")
    if table.empty:
        return pd.Series(dtype=float)
    return factor * table[table["name"] == name].set_index("round")["value"]


def add_to_title(ax: "Axes", text: str) -> None:
    """One more line of a panel's title."""
    ax.set_title("\n".join(part for part in (ax.get_title(), text) if part), fontsize=9)


def whole_ticks(*axes: "Axis") -> None:
    """Ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True))


def listed(value: str | list[str]) -> list[str]:
    """One name, or several, as a list."""
    return [value] if isinstance(value, str) else value


def rounds_there(wanted: Sequence[int], there: Iterable[int]) -> list[int]:
    """The wanted rounds, each replaced by the nearest one that was recorded."""
    recorded = sorted(set(there))
    return sorted({min(recorded, key=lambda t: (abs(t - w), t)) for w in wanted}) if recorded else []
