"""What a page says of a study that runs: how far it is, what runs now, and the curves so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedbench.render.pages.charts import Curve, LineChart, Panel, line_charts

POINTS = 120  # of a line
MOST_LINES = 16  # in the chart


@dataclass(frozen=True)
class Now:
    """A trial that runs: its name, rounds done of all, and the accuracy in percent of scored rounds."""

    hash: str
    name: str
    round: int
    rounds: int
    curve: Mapping[int, float]

    @property
    def scored(self) -> int | None:
        """The last round that was scored; None before there is one."""
        return max((round_ for round_ in self.curve if round_ <= self.round), default=None)

    @property
    def score(self) -> str:
        """The accuracy of that round."""
        return "-" if self.scored is None else f"{self.curve[self.scored]:.2f}"


@dataclass(frozen=True)
class Live:
    """A study that runs, or was stopped. share: of its rounds, done; counts, left: in words."""

    running: bool
    share: float
    counts: str
    left: str
    now: Sequence[Now]

    @property
    def charts(self) -> list[LineChart]:
        """Accuracy so far of what runs now."""
        curves = [Curve(one.name, slot, _points(one)) for slot, one in enumerate(self.now[:MOST_LINES])]
        return line_charts([Panel("so far", ("round", "test accuracy (%)"), curves, whole=True)], points=POINTS)

    @property
    def legend(self) -> list[tuple[str, int]]:
        """Name and slot of every line."""
        return [(one.name, slot) for slot, one in enumerate(self.now[:MOST_LINES])]


def _points(trial: Now) -> list[tuple[float, float, float]]:
    return [(float(round_), value, 0.0) for round_, value in sorted(trial.curve.items())]
