"""The plot of variance components: one stacked bar for each row, one colour for each source."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedbench.analysis.variance import REST, VarianceRow
from fedbench.render.figures import below, canvas, save
from fedbench.render.style import colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VARIANCE_STEM = "variance"
WIDTH, BAR, ROOM = 4.6, 0.42, 1.0  # inches: of the bars, of one bar, and of what stands above and below them
REST_COLOUR = "0.75"


def draw_variance(rows: Sequence[VarianceRow], folder: Path) -> list[Path]:
    """Write variance.png, .svg and .pdf, unless no row has components; return the paths."""
    shown = [row for row in rows if row.shares]
    if not shown:
        return []
    with canvas(1, 1, (WIDTH, ROOM + BAR * len(shown)), "none") as (figure, axes):
        _draw(axes[0, 0], shown)
        figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
        below(figure, "share of the variance between trials by source; in brackets the standard deviation of a trial")
        return save(figure, axes, folder / VARIANCE_STEM)


def _draw(ax: "Axes", rows: Sequence[VarianceRow]) -> None:
    """Draw bars from top to bottom in the order of the rows, each divided among its sources."""
    sources = list(dict.fromkeys(share.source for row in rows for share in row.shares if share.source != REST))
    colours = {source: colour_of(number) for number, source in enumerate(sources)} | {REST: REST_COLOUR}
    ends = [0.0] * len(rows)
    for source, colour in colours.items():
        widths = [
            next((100 * share.component.share for share in row.shares if share.source == source), 0.0) for row in rows
        ]
        if any(widths):
            ax.barh(range(len(rows)), widths, left=ends, color=colour, label=source, height=0.7)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    ax.set_yticks(range(len(rows)), [f"{row.name}\n{row.what} ({row.std:.2f})" for row in rows], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, 100)
    ax.set_xlabel("share of the variance (%)")
    ax.grid(visible=False, axis="y")
