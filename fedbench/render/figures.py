"""Figures: the grid of panels, the legend beside it, the files; one style for all, fit for colour-blind readers."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from itertools import product
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, cast

from fedbench.analysis.values import Trials, finished
from fedbench.base.files import write_bytes
from fedbench.render.plots.base import ColourPlot, PanelData, Plot, QuantityPlot
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Label, named, short
from fedbench.specs.parts import PlotSpec
from fedbench.store.store import StoredTrial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.dpi": 150,
    "legend.handlelength": 3.2,  # long enough to tell dashes apart
    "pdf.fonttype": 42,  # letters that can be searched and edited
    "svg.hashsalt": "fedbench",
}
# ending -> what is left out of the metadata: the time, so that a figure made again has the same bytes
FORMATS: Mapping[str, Any] = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
WIDE = 3  # panels beside each other
Sharing = Literal["none", "col", "all"]  # of y axes: none, those in a column, all
LETTERS = 16  # of the line below all panels, to an inch
BESIDE = 1.2  # inches beside the panels, for a legend of one column
ENTRY = 0.2  # inches that an entry of the legend takes


def draw(study: ScaledStudy, trials: Mapping[str, StoredTrial], spec: PlotSpec, stem: Path) -> list[Path]:
    """Draw a figure in all formats and return the files; none if there is nothing to show."""
    with drawn(study, trials, spec) as made:
        return save(*made, stem) if made else []


@contextmanager
def drawn(
    study: ScaledStudy, trials: Mapping[str, StoredTrial], spec: PlotSpec
) -> "Iterator[tuple[Figure, Any] | None]":
    """Yield a figure and its axes; None if there is nothing to show."""
    plot = cast(Plot, spec)
    panels = panels_of(study, trials, plot)
    parts = plot.parts(PanelData(study, trials, [cell for _, cells in panels for cell in cells], None))
    if not panels or not parts:
        yield None
        return
    wide = len(parts) if len(parts) > 1 else min(WIDE, len(panels))
    with canvas(len(panels) * len(parts), wide, plot.size, _shared(plot, len(parts))) as (figure, axes):
        for ax, ((title, cells), part) in zip(axes.flat, product(panels, parts), strict=False):
            ax.set_title(title, fontsize=9)
            plot.draw(ax, PanelData(study, trials, cells, part))
        _legend(figure, axes.flat, plot)
        below(figure, plot.note([PanelData(study, trials, cells, None) for _, cells in panels]))
        yield figure, axes


def _shared(plot: Plot, parts: int) -> Sharing:
    """Return which panels share a y axis: those that show the same quantity."""
    if not isinstance(plot, QuantityPlot) or not plot.share_y:
        return "none"
    return "col" if plot.parts_differ and parts > 1 else "all"


@contextmanager
def canvas(panels: int, wide: int, size: tuple[float, float], shared: Sharing) -> "Iterator[tuple[Figure, Any]]":
    """Yield a figure and its axes [rows, columns] for a number of panels of a size in inches.

    The figure is not one of pyplot's: a notebook's own figures, and the way it shows them, stay as they are.
    """
    import matplotlib  # a second to import: not before the trials have run
    from matplotlib.figure import Figure

    tall = -(-panels // wide)
    inches = (0.6 + size[0] * wide + BESIDE, 0.4 + size[1] * tall)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=inches, layout="constrained")
        axes = figure.subplots(tall, wide, squeeze=False, sharey=shared)
        for ax in axes.flat[panels:]:
            ax.set_visible(False)
        yield figure, axes


def panels_of(study: ScaledStudy, trials: Trials, plot: Plot) -> list[tuple[str, list[Cell]]]:
    """Return the title and the cells of every panel that has anything to show."""
    chosen = study.select(plot.where)
    panels = []
    for labels in product(*(study.labels(axis, plot.where) for axis in plot.panels)):
        at = dict(zip(plot.panels, labels, strict=True))
        cells = [cell for cell in chosen if all(cell.labels[axis] == label for axis, label in at.items())]
        if any(finished(trials, config.hash) for cell in cells for config in cell.trials.values()):
            panels.append((_title(at), cells))
    return panels


def _title(labels: Mapping[str, Label]) -> str:
    """Return the title of a panel: numbers with the name of their axis, words alone."""
    return ", ".join(named(axis, label) for axis, label in labels.items())


def _legend(figure: "Figure", axes: Any, plot: Plot) -> None:
    """Add one legend for all panels, beside them; a long legend has several columns in a wider figure."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if label:
                handles.setdefault(label, handle)
    if handles:
        title = short(plot.colour) if isinstance(plot, ColourPlot) and plot.colour else None
        columns = math.ceil(len(handles) / (figure.get_figheight() / ENTRY - 1))
        look: Any = {"title": title, "loc": "outside right upper", "frameon": False, "ncols": columns}
        legend = figure.legend(handles.values(), handles.keys(), **look)
        if columns > 1:
            width = legend.get_window_extent().width / figure.dpi
            figure.set_figwidth(figure.get_figwidth() - BESIDE + width)


def below(figure: "Figure", note: str) -> None:
    """Add a small line below all panels."""
    if note:
        figure.supxlabel(fill(note, int(figure.get_figwidth() * LETTERS)), fontsize=7, color="0.35", x=0.01, ha="left")


def save(figure: "Figure", axes: Any, stem: Path) -> list[Path]:
    """Write all formats and return their paths.

    The layout that was found for the first is kept, since finding it is slow.
    """
    for ax in axes[:, 1:].flat:
        if ax.get_shared_y_axes().joined(ax, axes[0, 0]):
            ax.set_ylabel("")  # it stands at the left
    paths = []
    for ending, metadata in FORMATS.items():
        content = BytesIO()
        figure.savefig(content, format=ending, metadata=metadata)
        figure.set_layout_engine(None)
        paths.append(write_bytes(stem.with_name(f"{stem.name}.{ending}"), content.getvalue()))
    return paths
