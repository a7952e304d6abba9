"""Geometry of a page's small charts: numbers in, places in pixels out. No HTML here."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

WIDTH, HEIGHT = 380, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 10, 34
TICKS = 5
EARLY = 0.5  # of the rounds, in which lines mostly rise alike
WORTH = 1.5  # times the range: so much more must a chart show to be zoomed
LETTER = 6.2  # the width of one, about
Point = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """A range of numbers on a range of pixels; log: by their logarithms."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a number in pixels."""
        low, high, here = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (here - low) / (high - low)

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and texts of some round numbers."""
        return [(round(self(value), 1), f"{value:.4g}") for value in _round_numbers(self)]


def _round_numbers(scale: Scale) -> list[float]:
    if scale.log:
        first, last = math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high))
        tens = [10.0**power for power in range(first, last + 1, max(1, (last - first) // TICKS + 1))]
        return tens if len(tens) > 1 else [scale.low, scale.high]
    rough = (scale.high - scale.low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    count = range(math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9) + 1)
    return [round(number * step, 10) + 0.0 for number in count]  # never minus zero


def scale_over(
    values: Iterable[float], start: float, end: float, *, log: bool = False, tight: bool = False
) -> Scale | None:
    """Return a scale over all values, with a margin unless tight; None if there are no values."""
    there = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not there:
        return None
    low, high = min(there), max(there)
    if log:
        return Scale(low / 1.2, high * 1.2, start, end, log=True)
    if low == high:
        low, high = low - (abs(low) or 1) * 0.05, high + (abs(high) or 1) * 0.05
    margin = 0 if tight else 0.04 * (high - low)
    return Scale(low - margin, high + margin, start, end)


@dataclass(frozen=True)
class Curve:
    """Numbers of one line: (x, mean, std) at every point; its name, and its look."""

    label: str
    slot: int
    points: Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class Panel:
    """The content of one line chart.

    names: words that stand at x = 0, 1, 2 ...; ticks: where x has marks, if not at round numbers; log: whether x and
    y go by their logarithms; whole: whether x counts something.
    """

    title: str
    labels: tuple[str, str]
    curves: Sequence[Curve]
    names: Sequence[str] = ()
    ticks: Sequence[float] = ()
    log: tuple[bool, bool] = (False, False)
    dots: bool = False
    whole: bool = False


@dataclass(frozen=True)
class DrawnCurve:
    """A line as SVG has it; values: x:mean of every point, with :std where there is one, for the pointer."""

    label: str
    slot: int
    path: str
    band: str
    values: str


@dataclass(frozen=True)
class Whole:
    """The whole range of a chart that shows a part of it: a place y in pixels is then at stretch * y + shift."""

    stretch: float
    shift: float
    y_ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True)
class LineChart:
    """A panel of lines; dots: whether every point has one; whole: the whole range, where only a part is shown."""

    title: str
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    curves: Sequence[DrawnCurve]
    names: Sequence[str] = ()
    dots: bool = False
    whole: Whole | None = None


def line_charts(
    panels: Sequence[Panel], *, points: int, band: bool = True, shared: bool = True, zoom: bool = False
) -> list[LineChart]:
    """Lines with bands of one standard deviation, each thinned to so many points, of the panels that have a number.

    shared: panels that show the same quantity have the same y axis; zoom: charts whose lines rise or fall steeply at
    first show the range of the later points.
    """
    thin = [replace(panel, curves=[_thin(curve, points) for curve in panel.curves]) for panel in panels]
    heights: dict[str | int, list[float]] = {}
    for number, panel in enumerate(thin):
        spreads = [1, -1] if band and not panel.log[1] else [0]
        values = [row[1] + sign * row[2] for curve in panel.curves for row in curve.points for sign in spreads]
        heights.setdefault(panel.labels[1] if shared else number, []).extend(values)
    charts = []
    for number, panel in enumerate(thin):
        y = scale_over(heights[panel.labels[1] if shared else number], HEIGHT - BOTTOM, TOP, log=panel.log[1])
        along = [*panel.ticks, *(row[0] for curve in panel.curves for row in curve.points)]
        along += [-0.5, len(panel.names) - 0.5] if panel.names else []  # room for the words
        tight = bool(panel.names) or not panel.dots
        x = scale_over(along, LEFT, WIDTH - RIGHT, log=panel.log[0], tight=tight)
        if x and y and any(curve.points for curve in panel.curves):
            late = _late(panel, y, band) if zoom and not panel.log[1] else None
            shown = late or y
            drawn = [_drawn(curve, x, shown, band and not y.log) for curve in panel.curves if curve.points]
            whole = _whole(y, late) if late else None
            marks = (_marks(panel, x), shown.ticks())
            charts.append(LineChart(panel.title, *panel.labels, *marks, drawn, panel.names, panel.dots, whole))
    return charts


def _whole(whole: Scale, part: Scale) -> Whole:
    """Return how positions on the scale of a part become positions on that of the whole range."""
    stretch = (part.high - part.low) / (whole.high - whole.low)
    return Whole(round(stretch, 6), round(whole(part.low) - stretch * part(part.low), 3), whole.ticks())


def _late(panel: Panel, whole: Scale, band: bool) -> Scale | None:
    """Return the scale of the points in the second half; None if that would not show much more of them."""
    along = [row[0] for curve in panel.curves for row in curve.points]
    start = min(along) + EARLY * (max(along) - min(along))
    spreads = [1, -1] if band else [0]
    late = [row[1] + sign * row[2] for c in panel.curves for row in c.points if row[0] >= start for sign in spreads]
    scale = scale_over(late, whole.start, whole.end)
    return scale if scale and whole.high - whole.low > WORTH * (scale.high - scale.low) else None


def _thin(curve: Curve, points: int) -> Curve:
    return replace(curve, points=thinned([p for p in curve.points if math.isfinite(p[1])], points))


def _marks(panel: Panel, x: Scale) -> list[tuple[float, str]]:
    """(place, text) along x: names cut to the room that they have, numbers left out where they would touch."""
    if panel.names:
        room = max(3, int((x.end - x.start) / len(panel.names) / LETTER))
        texts = [name if len(name) <= room else f"{name[: room - 1]}\u2026" for name in panel.names]
        return [(round(x(place), 1), text) for place, text in enumerate(texts)]
    if not panel.ticks:
        return [(at, text) for at, text in x.ticks() if not panel.whole or float(text).is_integer()]
    marks: list[tuple[float, str]] = []
    for value in sorted(panel.ticks, reverse=True):
        place, text = round(x(value), 1), f"{value:g}"
        if not marks or marks[-1][0] - place > LETTER * (len(text) + 1):
            marks.append((place, text))
    return marks


def _drawn(curve: Curve, x: Scale, y: Scale, band: bool) -> DrawnCurve:
    there = [row for row in curve.points if row[1] > 0 or not y.log]
    upper = [(x(at), y(mean + std)) for at, mean, std in there] if band else []
    lower = [(x(at), y(mean - std)) for at, mean, std in reversed(there)] if band else []
    wide = band and any(std for _, _, std in there)
    return DrawnCurve(
        label=curve.label,
        slot=curve.slot,
        path=path((x(at), y(mean)) for at, mean, _ in there),
        band=path([*upper, *lower]) + "Z" if wide else "",
        values=" ".join(f"{at:g}:{mean:.4g}" + (f":{std:.2g}" if std else "") for at, mean, std in there),
    )


def thinned(points: Sequence[tuple[float, float, float]], most: int) -> list[tuple[float, float, float]]:
    """Return at most `points` evenly chosen points, including the first and the last."""
    if len(points) <= most:
        return list(points)
    return [points[round(number * (len(points) - 1) / (most - 1))] for number in range(most)]


def path(points: Iterable[Point]) -> str:
    """Return a line through points as an SVG path."""
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def sparkline(values: Sequence[float], most: int, width: float = 90, height: float = 20) -> str:
    """Return a small line through values as an SVG path; empty for fewer than two values."""
    rows = thinned([(number, value, 0.0) for number, value in enumerate(values) if math.isfinite(value)], most)
    x, y = scale_over((r[0] for r in rows), 1, width - 1, tight=True), scale_over((r[1] for r in rows), height - 1, 1)
    return path((x(at), y(value)) for at, value, _ in rows) if len(rows) > 1 and x and y else ""


@dataclass(frozen=True)
class Dot:
    """A point of a scatter chart: numbers, name, look, and what is said of it under the pointer."""

    x: float
    y: float
    label: str
    slot: int
    text: str


@dataclass(frozen=True)
class DotChart:
    """Points by two numbers; `dots` are at their places in pixels; band and line: paths behind them."""

    title: str
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    dots: Sequence[Dot]
    line: str = ""
    band: str = ""


def dot_chart(title: str, labels: tuple[str, str], dots: Sequence[Dot]) -> DotChart | None:
    """Return a scatter chart; x is logarithmic if it covers more than a power of ten."""
    prices = [dot.x for dot in dots]
    log = bool(prices) and min(prices) > 0 and max(prices) > 10 * min(prices)
    x = scale_over((dot.x for dot in dots), LEFT, WIDTH - RIGHT, log=log)
    y = scale_over((dot.y for dot in dots), HEIGHT - BOTTOM, TOP)
    if x is None or y is None:
        return None
    return DotChart(title, *labels, x.ticks(), y.ticks(), _placed(dots, x, y))


def parity_chart(title: str, labels: tuple[str, str], dots: Sequence[Dot], tolerance: float) -> DotChart | None:
    """Return a scatter chart of two numbers that should be equal, with the diagonal and the tolerance band."""
    both = [number for dot in dots for number in (dot.x, dot.y)]
    x, y = scale_over(both, LEFT, WIDTH - RIGHT), scale_over(both, HEIGHT - BOTTOM, TOP)
    if x is None or y is None:
        return None
    low, high = x.low, x.high
    corners = [(low, low - tolerance), (high, high - tolerance), (high, high + tolerance), (low, low + tolerance)]
    band = path((x(a), y(b)) for a, b in corners) + "Z"
    line = path((x(end), y(end)) for end in (low, high))
    return DotChart(title, *labels, x.ticks(), y.ticks(), _placed(dots, x, y), line, band)


def _placed(dots: Sequence[Dot], x: Scale, y: Scale) -> list[Dot]:
    return [replace(dot, x=round(x(dot.x), 1), y=round(y(dot.y), 1)) for dot in dots]


@dataclass(frozen=True)
class Interval:
    """A mean with its interval on a scale of its own, in pixels.

    zero: where zero is; margin: the bounds that it must keep; ticks: (place, text) of some numbers on the scale.
    """

    mean: float
    low: float | None
    high: float | None
    zero: float
    margin: Sequence[float]
    ticks: Sequence[tuple[float, str]]
    width: float = 190.0


def interval(mean: float, low: float | None, high: float | None, bounds: Sequence[float]) -> Interval:
    """Place a mean, its interval and its bounds on a scale that has zero in it."""
    return intervals([(mean, low, high)], bounds)[0]


def intervals(rows: Sequence[tuple[float, float | None, float | None]], bounds: Sequence[float]) -> list[Interval]:
    """Place several means and their intervals on one scale that has zero and the bounds in it."""
    numbers = [number for row in rows for number in row if number is not None]
    scale = scale_over([0.0, *numbers, *bounds], 12, Interval.width - 12)
    assert scale is not None  # zero is there

    def at(number: float) -> float:
        return round(scale(number), 1)

    return [
        Interval(
            mean=at(mean),
            low=None if low is None else at(low),
            high=None if high is None else at(high),
            zero=at(0.0),
            margin=[at(bound) for bound in bounds if bound],
            ticks=_apart([(at(0.0), "0"), *scale.ticks()]),
        )
        for mean, low, high in rows
    ]


def _apart(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the ticks whose texts have room beside those before them."""
    kept: list[tuple[float, str]] = []
    for place, text in ticks:
        if all(abs(place - other) > LETTER * (len(text) + len(beside) + 1) / 2 for other, beside in kept):
            kept.append((place, text))
    return kept
