"""Ranks for a page: the diagram of mean ranks in pixels, and the matrix of who is ahead of whom."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedbench.analysis.ranks import Ranks
from fedbench.analysis.statistics.ranking import alike
from fedbench.render.style import slots

WIDTH, SIDE = 760, 190  # of the diagram, and of the names at each side
AXIS, ROW, GROUP = 46, 19, 7  # the axis' height, and the distance of two names, and of two bars


@dataclass(frozen=True)
class Ranked:
    """A competitor in the diagram: its mean rank and the position of its name, in pixels.

    left: whether that is on the left.
    """

    name: str
    slot: int
    rank: str
    x: float
    y: float
    left: bool


@dataclass(frozen=True)
class Diagram:
    """Mean ranks on a line from the best at the left; bars join those that cannot be told apart."""

    height: float
    ticks: Sequence[tuple[float, str]]
    ranked: Sequence[Ranked]
    bars: Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class PageRanks:
    """Ranks, the diagram (None if fewer than two cells have all competitors), and the margin in words.

    meanings: for each competitor, ahead of whom and behind whom it is, in words.
    """

    ranks: Ranks
    diagram: Diagram | None
    margin: str
    meanings: Sequence[str]


def page_ranks(ranks: Ranks | None) -> PageRanks | None:
    """Return ranks as a page shows them; None if there are none."""
    if ranks is None:
        return None
    meanings = [_meaning(ranks, place) for place in range(len(ranks.names))]
    return PageRanks(ranks, _diagram(ranks), f"{ranks.margin:g}", meanings)


def _meaning(ranks: Ranks, place: int) -> str:
    """Return in words ahead of whom and behind whom a competitor is, as far as the test decides."""
    others = [other for other in range(len(ranks.names)) if other != place]
    ahead = [ranks.names[other] for other in others if ranks.ahead[place][other].sure]
    behind = [ranks.names[other] for other in others if ranks.ahead[other][place].sure]
    words = [*([f"ahead of {', '.join(ahead)}"] if ahead else []), *([f"behind {', '.join(behind)}"] if behind else [])]
    return "; ".join(words) or "cannot be told apart from any other"


def _diagram(ranks: Ranks) -> Diagram | None:
    count = len(ranks.names)
    if ranks.mean.cells < 2:
        return None

    def x(rank: float) -> float:
        return round(SIDE + (rank - 1) / (count - 1) * (WIDTH - 2 * SIDE), 1)

    groups = alike(ranks.ahead)
    bars = [
        (x(ranks.mean.ranks[first]) - 3, x(ranks.mean.ranks[last]) + 3, AXIS + GROUP * (number + 1))
        for number, (first, last) in enumerate(groups)
    ]
    top, half = AXIS + GROUP * (len(groups) + 1) + ROW / 2, math.ceil(count / 2)
    looks = slots(ranks.axis)
    ranked = [
        Ranked(
            name,
            looks[label],
            f"{ranks.mean.ranks[k]:.2f}",
            x(ranks.mean.ranks[k]),
            round(top + ROW * (k if k < half else count - 1 - k), 1),
            left=k < half,
        )
        for k, (name, label) in enumerate(zip(ranks.names, ranks.labels, strict=True))
    ]
    step = max(1, round(count / 12))
    ticks = [(x(rank), str(rank)) for rank in range(1, count + 1, step)]
    return Diagram(round(top + ROW * half, 1), ticks, ranked, bars)
