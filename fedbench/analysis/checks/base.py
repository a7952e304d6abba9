"""What a check is: a claim's fields, and the numbers by seed that decide on it."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isabstract
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedbench.analysis.statistics.verdicts import ONE, Array, Rule
from fedbench.base.errors import ConfigError
from fedbench.base.fields import fixed_name
from fedbench.metrics import METRICS, Metric
from fedbench.specs.expand import Cell
from fedbench.specs.names import Label, Point, Where, short, shown_as, text_label
from fedbench.specs.parts import CHECKS, ClaimSpec


@dataclass(frozen=True)
class Evidence:
    """Numbers by seed, in words; the claim says that what counts of them lies between `low` and `high`.

    sample: one number a seed [seeds], or as the rule has it, by points [seeds, points], with nan where there is none;
    names: of the points; also: p values of a second test, that the number is larger and that it is smaller, which must
    decide likewise; remark: what must be known of it; span: by how much the number is multiplied before it
    is compared with the margin (1 for a difference, the steps of the axis for a slope), None where no margin applies;
    decidable: whether any number of seeds can decide it. See `fedbench.analysis.statistics.verdicts`.
    """

    text: str
    sample: ArrayLike
    low: float = 0.0
    high: float = float("inf")
    digits: int = 2
    rule: Rule = ONE
    names: Sequence[Label] = ()
    also: tuple[ArrayLike, ArrayLike] = (0.0, 0.0)
    remark: str = ""
    span: float | None = None
    decidable: bool = True


Cells = tuple[Cell, ...]  # mostly one; several where a claim takes them together
Read = Callable[[Cells, str], Array]


@dataclass(frozen=True)
class Group:
    """The cells of one place, found by their labels on the axes that the check uses; `read` gives numbers by seed.

    Numbers are [seeds], in the study's order: nan where a trial is missing, and infinite on the worse side where it
    diverged.
    """

    claim: ClaimSpec
    cells: Mapping[tuple[Label, ...], Cells]
    axes: Sequence[str]
    read: Read
    baseline: Mapping[str, Label]
    seeds: int

    def at(self, point: Mapping[str, Label], metric: str | None = None) -> Array:
        """Return the claim's metric, or another one, at a point, by seed; nan where it was not run."""
        cells = self.cells.get(tuple(point[axis] for axis in self.axes))
        return self.read(cells, metric or self.claim.value) if cells else np.full(self.seeds, np.nan)

    def points(self, axis: str, elsewhere: Mapping[str, Label] | None = None) -> tuple[list[Label], Array]:
        """Return the points of an axis that the study has, and the claim's values there [seeds, points].

        Numbers are in ascending order, words in the file's; elsewhere: the point on the other axes, if there are any.
        A seed that some point lacks is nan at all of them, so that all rest on the same seeds. There may be no points
        where a scale leaves out what the claim is about.
        """
        position = list(self.axes).index(axis)
        labels: list[Label] = list(dict.fromkeys(labels[position] for labels in self.cells))
        numbers = [label for label in labels if isinstance(label, int | float)]
        if len(numbers) == len(labels):
            labels = list(sorted(numbers))
        places = {label: {**(elsewhere or {}), axis: label} for label in labels}
        there = [label for label in labels if tuple(places[label][name] for name in self.axes) in self.cells]
        if not there:
            return [], np.empty((self.seeds, 0))
        values = np.array([self.at(places[label]) for label in there]).swapaxes(0, 1)
        return there, np.where(np.isnan(values).any(axis=1, keepdims=True), np.nan, values)

    def nothing(self) -> Evidence:
        """Return empty evidence, for where there is nothing to compare."""
        return Evidence("", np.full(self.seeds, np.nan))


class Check(ClaimSpec):
    """A claim with its check. A subclass fixes `check` to its name, and turns a group of cells into evidence."""

    @abstractmethod
    def evidence(self, group: Group) -> Evidence:
        """Return the evidence of a group of cells: one number for each seed."""

    @property
    def swept(self) -> list[str]:
        """Return the axes of which the check needs every point."""
        return []

    @property
    def metric(self) -> Metric:
        """Return the metric of the claim."""
        return METRICS.get(self.value)

    @property
    def subject(self) -> str:
        """Return the quantity of the claim in words."""
        return shown_as(self.metric.label, self.show)


class PairCheck(Check):
    """A check of the difference between two points."""

    point: Point
    """labels on some axes"""
    against: Point | None = None
    """other labels on these axes; by default the study's baseline"""

    @property
    def names(self) -> Where:
        """Return the axes of both points, and their labels."""
        points = (self.point, self.against or {})
        return {axis: [point[axis] for point in points if axis in point] for point in points for axis in point}

    def complaint(self, baseline: Where) -> str | None:
        """Return what is wrong with the two points in a study with this baseline; None if nothing is."""
        if not self.against and not set(self.point) & set(baseline):
            return "has nothing to compare with; give it 'against', or the study a baseline"
        if extra := set(self.against or {}) - set(self.point):
            return f"against names {min(extra)}, so point must name it too"
        other = self.against or {axis: labels[0] for axis, labels in baseline.items() if axis in self.point}
        if {**self.point, **other} == self.point:
            return f"compares {point_label(self.point)} with itself; name another point, or another 'against'"
        return None

    def other(self, group: Group) -> Point:
        """Return the point with which the first one is compared."""
        against = self.against or {axis: group.baseline[axis] for axis in self.point if axis in group.baseline}
        return {**self.point, **against}

    def differences(self, group: Group, sign: int = 1) -> Evidence:
        """Return the paired differences: the first point less the second (sign 1), or the other way round (-1)."""
        other = self.other(group)
        sample = sign * difference(group.at(self.point), group.at(other))
        names = (point_label(self.point), point_label(other))
        return Evidence(f"{self.subject}, {' - '.join(names[::sign])}:", sample, digits=self.metric.digits, span=1.0)


class AxisCheck(Check):
    """A check of the points along an axis."""

    axis: str
    """the axis"""

    @property
    def names(self) -> Where:
        """Return the axis, without labels."""
        return {self.axis: []}

    @property
    def swept(self) -> list[str]:
        """Return the axis, of which every point is needed."""
        return [self.axis]

    @property
    def axis_name(self) -> str:
        """Return the short name of the axis."""
        return short(self.axis)


class SweptPairCheck(PairCheck):
    """A check of two points that are followed along an axis."""

    axis: str
    """the axis along which both are followed"""

    @property
    def names(self) -> Where:
        """Return the axes of both points with their labels, and the axis that is followed."""
        return {**super().names, self.axis: []}

    @property
    def swept(self) -> list[str]:
        """Return the axis, of which every point is needed."""
        return [self.axis]

    def complaint(self, baseline: Where) -> str | None:
        """Return what is wrong with the points: neither may lie on the axis that is followed."""
        if self.axis in super().names:
            return f"point names {self.axis}, which it is followed along; name it once"
        return super().complaint(baseline)

    @property
    def axis_name(self) -> str:
        """Return the short name of the axis."""
        return short(self.axis)


C = TypeVar("C", bound=ClaimSpec)


def register_check(check: type[C]) -> type[C]:
    """Decorate a Check subclass; its name is the one that its field `check` fixes."""
    if isabstract(check):
        raise ConfigError(f"{check.__name__}: a check must have a method evidence(self, group)")
    CHECKS.add(fixed_name(check, "check"), check)
    return check


def point_label(point: Mapping[str, Label]) -> str:
    """Return the labels of a point as text."""
    return ", ".join(map(text_label, point.values()))


def difference(one: Array, other: Array) -> Array:
    """Return one array less another, by seed; nan, which is no information, where both diverged."""
    with np.errstate(invalid="ignore"):
        return np.asarray(one - other)


def slopes(points: Array, sign: int) -> tuple[Array, tuple[Array, Array]]:
    """Return the least-squares slope of every seed over points [seeds, points, ...], times a sign, and `Evidence.also`.

    The points count as evenly spaced.

    nan where a point is missing, or all diverged; infinite where some diverged, on the side to which that tilts the
    line. The second part is for `Evidence.also`: nothing is decided unless the same points diverged in all seeds, and
    tilt the line to one side.
    """
    steps = np.arange(points.shape[1]) - (points.shape[1] - 1) / 2
    with np.errstate(invalid="ignore"):
        lines = np.moveaxis(points, 1, -1) @ (sign * steps / (steps**2).sum())
    lost = np.isinf(points)
    missing = np.isnan(points).any(axis=1) | lost.all(axis=1)
    torn = (np.isnan(lines) & ~missing).any(axis=0) | (lost != lost[:1]).any(axis=(0, 1))
    open_ = np.where(torn, 1.0, 0.0)
    return np.where(np.isnan(lines) & ~missing, -np.inf, np.where(missing, np.nan, lines)), (open_, open_)
