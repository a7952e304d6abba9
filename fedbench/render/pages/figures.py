"""A study's figures for a page: lines that answer the pointer; other kinds as the pictures they are."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedbench.analysis.values import Trials
from fedbench.render.figures import FORMATS, panels_of
from fedbench.render.pages.charts import Curve, LineChart, Panel, line_charts
from fedbench.render.plots.base import MeanPlot, PanelData, by_round, listed
from fedbench.render.plots.curves import Curves
from fedbench.render.plots.sweep import Sweep, axis_name
from fedbench.render.style import slots
from fedbench.simulation.record import columns
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import named, text_label

POINTS = 30_000  # of all lines of a page: some 35 bytes each
MOST_POINTS, FEWEST_POINTS = 120, 12  # of one line
PICTURES = 900_000  # bytes of all pictures in a page; further ones are links


@dataclass(frozen=True)
class PageFigure:
    """A figure: panels with lines, or a picture in the page (as a data address).

    legend: name and slot of every line; files: the same figure beside the page.
    """

    name: str
    note: str
    charts: Sequence[LineChart] = ()
    legend: Sequence[tuple[str, int]] = ()
    picture: str = ""
    files: Sequence[str] = ()


def page_figures(study: ScaledStudy, trials: Trials, folder: Path, *, pictures: bool = True) -> list[PageFigure]:
    """Return all figures of a study that have something to show, in the file's order.

    pictures: whether those that were drawn into the folder count.
    """
    room, made = PICTURES, list[PageFigure]()
    for name, spec in study.study.plots.items():
        files = [file for ending in FORMATS if pictures and (folder / (file := f"{name}.{ending}")).is_file()]
        if isinstance(spec, Curves | Sweep):
            figure = _lines(study, trials, name, spec, files)
            made += [figure] if figure.charts else []
        elif f"{name}.png" in files:
            content = base64.b64encode((folder / f"{name}.png").read_bytes()).decode()
            address = f"data:image/png;base64,{content}" if len(content) <= room else ""
            room -= len(content) if address else 0
            made.append(PageFigure(name, "", picture=address, files=files))
    return made


def pictures(paths: Sequence[Path]) -> list[PageFigure]:
    """Figures that were drawn as PNG, each in the page as long as there is room, else as a link."""
    room, made = PICTURES, list[PageFigure]()
    for path in paths:
        content = base64.b64encode(path.read_bytes()).decode()
        room -= len(content)
        files = [f"{path.stem}.{ending}" for ending in FORMATS]
        made.append(
            PageFigure(path.stem, "", picture=f"data:image/png;base64,{content}" if room > 0 else "", files=files)
        )
    return made


def _lines(study: ScaledStudy, trials: Trials, name: str, plot: Curves | Sweep, files: Sequence[str]) -> PageFigure:
    """Return the lines over rounds, or along an axis: a chart for every panel and every quantity."""
    panels = panels_of(study, trials, plot)
    made = [
        _over_rounds(study, trials, plot, title, cells, y)
        if isinstance(plot, Curves)
        else _along(study, trials, plot, title, cells, y)
        for title, cells in panels
        for y in listed(plot.y)
    ]
    lines = sum(len(panel.curves) for panel in made) * _line_plots(study)
    points = int(np.clip(POINTS // max(1, lines), FEWEST_POINTS, MOST_POINTS))
    zoom = isinstance(plot, Curves)
    charts = line_charts(made, points=points, band=plot.banded(study), shared=plot.share_y, zoom=zoom)
    legend = {curve.label: curve.slot for chart in charts for curve in chart.curves if curve.label}
    note = plot.note([PanelData(study, trials, cells, None) for _, cells in panels]) if charts else ""
    return PageFigure(name, note, charts, list(legend.items()), files=files)


def _line_plots(study: ScaledStudy) -> int:
    """Return how many figures of many points share the page."""
    return sum(isinstance(plot, Curves) for plot in study.study.plots.values()) or 1


def _over_rounds(
    study: ScaledStudy, trials: Trials, plot: Curves, title: str, cells: Sequence[Cell], name: str
) -> Panel:
    """Return mean and standard deviation over seeds, by round, of every cell of a panel."""
    scene, column = PanelData(study, trials, cells, None), columns()[name]

    def curves() -> Iterator[Curve]:
        for cell in scene.cells:
            if len(values := by_round(scene.done(cell), name)):
                yield _curve(study, plot, cell, values)

    return Panel(
        title or study.study.title, ("round", column.label), list(curves()), log=(False, column.log), whole=True
    )


def _along(study: ScaledStudy, trials: Trials, plot: Sweep, title: str, cells: Sequence[Cell], metric: str) -> Panel:
    """Return mean and standard deviation of a metric over seeds, along an axis."""
    places, numeric = plot.places(study)
    names = [] if numeric else [text_label(label) for label in study.labels(plot.x, plot.where)]
    curves = [_curve(study, plot, cell, frame) for cell, frame in plot.lines(PanelData(study, trials, cells, metric))]
    labels = (axis_name(plot.x), plot.quantity(metric))
    log = (plot.log and numeric, False)
    return Panel(title or study.study.title, labels, curves, names, places, log, dots=True)


def _curve(study: ScaledStudy, plot: MeanPlot, cell: Cell, frame: pd.DataFrame) -> Curve:
    """The mean over columns (seeds) and their standard deviation, by the index; with the look of a cell's colour."""
    words, slot = "", 1
    if plot.colour:
        label = cell.labels[plot.colour]
        words, slot = named(plot.colour, label), slots(study.labels(plot.colour, plot.where))[label]
    spread = frame.std(axis=1).fillna(0.0)
    rows = zip(frame.index, frame.mean(axis=1), spread, strict=True)
    return Curve(words, slot, [(float(x), float(y), float(s)) for x, y, s in rows])
