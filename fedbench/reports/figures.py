"""One figure: the grid of panels, the legend beside it, the files. Colour-blind-safe, labelled, one style for all."""

from collections.abc import Mapping
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fedbench.base.files import write_bytes
from fedbench.reports.plots.base import ColourPlot, Plot, Scene
from fedbench.reports.values import Trials, finished
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Label, short, text_label
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
    "svg.hashsalt": "fedbench",
}
WIDE = 3  # panels beside each other


def draw(study: ScaledStudy, trials: Mapping[str, StoredTrial], spec: PlotSpec, stem: Path) -> list[Path]:
    """Draw one figure as PNG and SVG; returns the files (none if there is nothing to show)."""
    import matplotlib  # a second to import: not before the trials have run

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plot = cast(Plot, spec)
    panels = _panels(study, trials, plot)
    parts = plot.parts(Scene(study, trials, [cell for _, cells in panels for cell in cells], None))
    if not panels or not parts:
        return []
    wide = len(parts) if len(parts) > 1 else min(WIDE, len(panels))
    tall = -(-len(panels) * len(parts) // wide)
    with plt.rc_context(STYLE):
        size = (0.6 + plot.size[0] * wide + 1.2, 0.4 + plot.size[1] * tall)
        figure, axes = plt.subplots(tall, wide, figsize=size, squeeze=False, layout="constrained")
        for ax, ((title, cells), part) in zip(axes.flat, product(panels, parts), strict=False):
            ax.set_title(title, fontsize=9)
            plot.draw(ax, Scene(study, trials, cells, part))
        for ax in axes.flat[len(panels) * len(parts) :]:
            ax.set_visible(False)
        _legend(figure, axes.flat, plot)
        paths = _save(figure, stem)
        plt.close(figure)
        return paths


def _panels(study: ScaledStudy, trials: Trials, plot: Plot) -> list[tuple[str, list[Cell]]]:
    """(title, cells) of every panel that has anything to show."""
    chosen = study.select(plot.where)
    panels = []
    for labels in product(*(study.labels(axis, plot.where) for axis in plot.panels)):
        at = dict(zip(plot.panels, labels, strict=True))
        cells = [cell for cell in chosen if all(cell.labels[axis] == label for axis, label in at.items())]
        if any(finished(trials, config.hash) for cell in cells for config in cell.trials.values()):
            panels.append((_title(at), cells))
    return panels


def _title(labels: Mapping[str, Label]) -> str:
    """What a panel shows: numbers with the name of their axis, words as they are."""
    return ", ".join(
        label if isinstance(label, str) else f"{short(axis)} {text_label(label)}" for axis, label in labels.items()
    )


def _legend(figure: "Figure", axes: Any, plot: Plot) -> None:
    """One legend for all panels, beside them."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if label:
                handles.setdefault(label, handle)
    if handles:
        title = short(plot.colour) if isinstance(plot, ColourPlot) and plot.colour else None
        figure.legend(handles.values(), handles.keys(), title=title, loc="outside right upper", frameon=False)


def _save(figure: "Figure", stem: Path) -> list[Path]:
    """Write PNG and SVG; the SVG keeps the layout that was found for the PNG, since finding it takes longest."""
    paths = []
    for ending, metadata in (("png", None), ("svg", {"Date": None})):
        content = BytesIO()
        figure.savefig(content, format=ending, metadata=metadata)
        figure.set_layout_engine(None)
        paths.append(write_bytes(stem.with_name(f"{stem.name}.{ending}"), content.getvalue()))
    return paths
