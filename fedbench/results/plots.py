"""Figures, one style for all: colour-blind-safe, labelled, with bands for the spread over seeds."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedbench.results.store import StoredTrial
from fedbench.studyfile import Cell, PlotSpec, ScaledStudy, text_label

# Okabe and Ito's palette, then line styles
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
NAMES = {
    "test_accuracy": "test accuracy (%)",
    "test_loss": "test loss",
    "train_loss": "training loss",
    "gamma": "gamma",
    "r": "r",
    "norm_w": "norm of the global model",
    "coherence_mean": "local gradient coherence",
}
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.dpi": 150,
    "svg.hashsalt": "fedbench",
}


def draw(study: ScaledStudy, trials: Mapping[str, StoredTrial], spec: PlotSpec, stem: Path) -> list[Path]:
    """Draw one figure as PNG and SVG; returns the files (none if there is nothing to show)."""
    if not any(trial.status == "done" for trial in trials.values()):
        return []
    panels = list(product(*(study.axes[axis] for axis in spec.panels)))
    wide = min(3, len(panels))
    tall = -(-len(panels) // wide)
    with plt.rc_context(STYLE):
        size = (0.6 + 3.1 * wide + 1.0, 0.4 + 2.4 * tall)
        figure, axes = plt.subplots(tall, wide, figsize=size, squeeze=False, sharex=True, layout="constrained")
        for place, panel in zip(axes.flat, panels, strict=False):
            chosen = dict(zip(spec.panels, panel, strict=True))
            cells = [cell for cell in study.cells if all(cell.labels[k] == v for k, v in chosen.items())]
            _curves(place, cells, trials, spec)
            place.set_title(", ".join(f"{k.split('.')[-1]} {text_label(v)}" for k, v in chosen.items()), fontsize=9)
        for place in axes.flat[len(panels) :]:
            place.set_visible(False)
        for place in axes[:, 0]:
            place.set_ylabel(NAMES[spec.y])
        for place in axes[-1]:
            place.set_xlabel("round")
            place.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, title=spec.colour.split(".")[-1], loc="outside right upper", frameon=False)
        paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
        for path in paths:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)
    return paths


def _curves(place: Axes, cells: list[Cell], trials: Mapping[str, StoredTrial], spec: PlotSpec) -> None:
    """One curve for every value of the colour axis: the mean over seeds, and a band of one standard deviation."""
    for number, cell in enumerate(cells):
        done = [trials[c.hash] for c in cell.trials.values() if c.hash in trials and trials[c.hash].status == "done"]
        if not done:
            continue
        factor = 100 if spec.y == "test_accuracy" else 1
        curves = pd.concat([factor * trial.rounds().set_index("round")[spec.y] for trial in done], axis=1).dropna()
        mean, spread = curves.mean(axis=1), curves.std(axis=1)
        colour, dash = COLOURS[number % len(COLOURS)], ("-", "--", ":")[number // len(COLOURS) % 3]
        place.plot(mean.index, mean, dash, color=colour, linewidth=1.3, label=text_label(cell.labels[spec.colour]))
        if len(done) > 1:
            place.fill_between(mean.index, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
