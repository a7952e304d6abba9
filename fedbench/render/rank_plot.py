"""The diagram of ranks: mean ranks on a line; bars join competitors that cannot be told apart."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from fedbench.analysis.ranks import Ranks
from fedbench.analysis.statistics.ranking import alike
from fedbench.render.figures import below, canvas, save
from fedbench.render.style import MARKERS, colour_of, number_of, slots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEM = "ranks"
WIDTH, ROW = 6.2, 0.2  # inches


def draw_ranks(ranks: Ranks, folder: Path) -> list[Path]:
    """Write ranks.png, .svg and .pdf and return the paths; none if fewer than two cells have all competitors."""
    if ranks.mean.cells < 2:
        return []
    groups = alike(ranks.ahead)
    rows = math.ceil(len(ranks.names) / 2) + len(groups) / 2 + 1.5
    with canvas(1, 1, (WIDTH, ROW * rows), "none") as (figure, axes):
        _draw(axes[0, 0], ranks, groups)
        below(figure, explained(ranks))
        return save(figure, axes, folder / STEM)


def explained(ranks: Ranks) -> str:
    """Return the caption of the diagram."""
    bars = f"bars join who cannot be told apart (5 %, Holm over pairs{f'; {ranks.too_few}' if ranks.too_few else ''})"
    by = "" if ranks.value == "test_accuracy" else f" by {ranks.by}"
    return f"mean rank{by} over {ranks.mean.cells} cell{'s' if ranks.mean.cells != 1 else ''}, 1 is best; {bars}"


def _draw(ax: "Axes", ranks: Ranks, groups: list[tuple[int, int]]) -> None:
    """Draw ranks downwards from the axis at zero; names are at both sides, with lines to their ranks."""
    count, mean = len(ranks.names), ranks.mean.ranks
    half, top = math.ceil(count / 2), 0.5 * len(groups) + 1
    ax.set_axis_off()
    beside = 0.45 * (count - 1)
    ax.set(xlim=(1 - beside, count + beside), ylim=(top + half, -1.2))
    ax.plot([1, count], [0, 0], color="black", linewidth=1)
    for rank in range(1, count + 1, max(1, round(count / 12))):
        ax.plot([rank, rank], [0, -0.25], color="black", linewidth=1)
        ax.text(rank, -0.4, str(rank), ha="center", va="bottom", fontsize=8)
    for number, (first, last) in enumerate(groups):
        ax.plot([mean[first], mean[last]], [0.5 * (number + 1)] * 2, color="black", linewidth=3)
    looks = slots(ranks.axis)
    for k, (name, label) in enumerate(zip(ranks.names, ranks.labels, strict=True)):
        left, colour = k < half, colour_of(looks[label])
        y = top + (k if left else count - 1 - k)
        end, to = (1 - 0.05 * (count - 1), -1) if left else (count + 0.05 * (count - 1), 1)
        ax.plot([mean[k], mean[k], end], [0, y, y], color=colour, linewidth=0.9)
        ax.plot([mean[k]], [0], marker=MARKERS[number_of(looks[label])], color=colour, markersize=5)
        text = f"{name}  {mean[k]:.2f}" if left else f"{mean[k]:.2f}  {name}"
        ax.text(end + 0.01 * to * (count - 1), y, text, ha="right" if left else "left", va="center", fontsize=8)
