"""Variance components as a sheet and as stacked bars: one bar for each row, one colour for each source."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedbench.analysis.statistics.variance import Component
from fedbench.analysis.variance import REST, VarianceRow, percent
from fedbench.render.figures import below, canvas, save
from fedbench.render.sheets import Entry, Sheet
from fedbench.render.shown import note
from fedbench.render.style import colour_of
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import heads, text_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VARIANCE_STEM = "variance"
WIDTH, BAR, ROOM = 4.6, 0.42, 1.0  # inches: of the bars, of one bar, and of what stands above and below them
REST_COLOUR = "0.75"


def variance_sheet(study: ScaledStudy, rows: Sequence[VarianceRow]) -> Sheet:
    """The components as people read them: a trial's standard deviation, and each source's share of its variance."""
    spec = study.study.variance
    assert spec is not None, "rows come from a study that asks for them"
    sources = list(dict.fromkeys(share.source for row in rows for share in row.shares))
    sources = [*(name for name in sources if name != REST), *([REST] if REST in sources else [])]
    table = []
    for row in rows:
        shares = {share.source: _entry(share.component) for share in row.shares}
        cells = [shares.get(name, "-") for name in sources]
        std = Entry(f"{row.std:.2f}") if row.std is not None else "-"
        table.append([*map(text_label, row.labels.values()), row.what, std, *cells])
    remarks = [f"{row.sentence}." for row in rows if row.sentence]
    remarks += [f"{row.name}, {row.what}: {row.problem}." for row in rows if row.problem]
    caption = f"{study.study.title}{note(study)}: share of the variance by source (%), with 95 % intervals"
    head = [*heads(spec.rows), "quantity", "standard deviation", *sources]
    return Sheet(head, table, caption, remarks)


def _entry(part: Component) -> Entry:
    if part.low == part.high:
        return Entry(percent(part.share))
    return Entry(percent(part.share), rest=f" [{percent(part.low)}, {percent(part.high)}]")


def draw_variance(rows: Sequence[VarianceRow], folder: Path) -> list[Path]:
    """Write variance.png, .svg and .pdf; nothing where no row has components."""
    shown = [row for row in rows if row.shares]
    if not shown:
        return []
    with canvas(1, 1, (WIDTH, ROOM + BAR * len(shown)), "none") as (figure, axes):
        _draw(axes[0, 0], shown)
        figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
        below(figure, "share of the variance between trials by source; in brackets the standard deviation of a trial")
        return save(figure, axes, folder / VARIANCE_STEM)


def _draw(ax: "Axes", rows: Sequence[VarianceRow]) -> None:
    """Bars from top to bottom in the order of the rows, each divided among its sources."""
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
