"""What was measured as a picture: samples a second of every model, and the share of the hardware's own speed."""

from pathlib import Path
from typing import TYPE_CHECKING

from fedbench.cost.cases import Row
from fedbench.cost.speeds import Speeds
from fedbench.render.figures import WIDE, below, canvas, save
from fedbench.render.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAR = 0.3  # inches


def draw_speeds(speeds: Speeds, folder: Path) -> list[Path]:
    """A panel for each model, a bar for each setting."""
    models = list(dict.fromkeys(row.model for row in speeds.rows))
    most = max(sum(row.model == model for row in speeds.rows) for model in models)
    with canvas(len(models), min(WIDE, len(models)), (3.4, 0.6 + BAR * most), "none") as (figure, axes):
        for ax, model in zip(axes.flat, models, strict=False):
            _panel(ax, [row for row in speeds.rows if row.model == model])
        below(
            figure, f"{speeds.machine}, measured {speeds.date}; percentages: of its speed in products of large matrices"
        )
        return save(figure, axes, folder / "speed")


def _panel(ax: "Axes", rows: list[Row]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    precisions = list(dict.fromkeys(row.precision for row in rows))
    names = [
        f"{row.engine}, {row.precision}\n{row.at_once} at once x {row.threads} thread{'s' if row.threads > 1 else ''}"
        for row in rows
    ]
    colours = [COLOURS[1 + precisions.index(row.precision) % 7] for row in rows]
    places = range(len(rows))
    bars = ax.barh(places, [row.samples for row in rows], color=colours, height=0.7)
    shares = [f"{100 * row.share:.0f} %" for row in rows]
    ax.bar_label(bars, shares, padding=2, fontsize=7)
    ax.set_yticks(places, names, fontsize=7)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_axisbelow(True)
    ax.grid(axis="y", visible=False)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.set_title(rows[0].model, fontsize=9)
    ax.set_xlabel("samples a second")
