"""One figure: the grid of panels, the legend beside it, the files."""

from collections.abc import Mapping
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from fedbench.base.files import write_bytes
from fedbench.reports.plots.base import Scene, short
from fedbench.reports.plots.kinds import KINDS
from fedbench.reports.tables import Trials, finished
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.parts import ColourSpec, Label, PlotSpec, text_label
from fedbench.store.store import StoredTrial

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
    kind = KINDS[spec.kind]
    panels = _panels(study, trials, spec)
    whole = Scene(study, trials, [cell for _, cells in panels for cell in cells], None)
    parts = kind.parts(spec, whole)
    if not panels or not parts:
        return []
    wide = len(parts) if len(parts) > 1 else min(WIDE, len(panels))
    tall = -(-len(panels) * len(parts) // wide)
    with plt.rc_context(STYLE):
        size = (0.6 + kind.size[0] * wide + 1.2, 0.4 + kind.size[1] * tall)
        figure, axes = plt.subplots(tall, wide, figsize=size, squeeze=False, layout="constrained")
        for place, ((title, cells), part) in zip(axes.flat, product(panels, parts), strict=False):
            place.set_title(title, fontsize=9)
            kind.panel(place, Scene(study, trials, cells, part), spec)
        for place in axes.flat[len(panels) * len(parts) :]:
            place.set_visible(False)
        _legend(figure, axes.flat, spec)
        return _save(figure, stem)


def _panels(study: ScaledStudy, trials: Trials, spec: PlotSpec) -> list[tuple[str, list[Cell]]]:
    """(title, cells) of every panel that has anything to show."""
    chosen = study.select(spec.where)
    found = []
    for labels in product(*(study.labels(axis, spec.where) for axis in spec.panels)):
        own = dict(zip(spec.panels, labels, strict=True))
        cells = [cell for cell in chosen if all(cell.labels[axis] == label for axis, label in own.items())]
        if any(finished(trials, config.hash) for cell in cells for config in cell.trials.values()):
            found.append((_title(own), cells))
    return found


def _title(labels: Mapping[str, Label]) -> str:
    """What a panel shows: numbers with the name of their axis, words as they are."""
    return ", ".join(
        label if isinstance(label, str) else f"{short(axis)} {text_label(label)}" for axis, label in labels.items()
    )


def _legend(figure: Figure, axes: Any, spec: PlotSpec) -> None:
    """One legend for all panels, beside them."""
    handles: dict[str, Any] = {}
    for place in axes:
        for handle, label in zip(*place.get_legend_handles_labels(), strict=True):
            if label:
                handles.setdefault(label, handle)
    if handles:
        title = short(spec.colour) if isinstance(spec, ColourSpec) and spec.colour else None
        figure.legend(handles.values(), handles.keys(), title=title, loc="outside right upper", frameon=False)


def _save(figure: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG; the SVG keeps the places that were found for the PNG, since finding them takes longest."""
    paths = []
    for ending, metadata in (("png", None), ("svg", {"Date": None})):
        content = BytesIO()
        figure.savefig(content, format=ending, metadata=metadata)
        figure.set_layout_engine(None)
        paths.append(stem.with_name(f"{stem.name}.{ending}"))
        write_bytes(paths[-1], content.getvalue())
    plt.close(figure)
    return paths
