"""What a check is: a claim's fields, and the one number a seed that decides on it."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isabstract
from typing import Any, TypeVar

import numpy as np

from fedbench.base.errors import ConfigError
from fedbench.base.fields import fixed_name
from fedbench.specs.expand import Cell
from fedbench.specs.names import Label, Point, Where, short, shown_as, text_label
from fedbench.specs.parts import CHECKS, ClaimSpec
from fedbench.store.metrics import METRICS, Metric

Values = dict[int, float]  # by seed


@dataclass(frozen=True)
class Evidence:
    """One number a seed, in words; the claim says that it lies between `low` and `high`.

    left: points of an axis that not all seeds have, and that are left out.
    """

    text: str
    sample: Sequence[float]
    low: float = 0.0
    high: float = float("inf")
    digits: int = 2
    left: Sequence[Label] = ()


Cells = tuple[Cell, ...]  # mostly one; several where a claim takes them together
Read = Callable[[Cells, str], Values]


@dataclass(frozen=True)
class Group:
    """The cells of one place, found by their labels on the axes that the check uses; `read` gives numbers by seed."""

    claim: ClaimSpec
    cells: Mapping[tuple[Label, ...], Cells]
    axes: Sequence[str]
    read: Read
    baseline: Mapping[str, Label]

    def at(self, point: Mapping[str, Label], metric: str | None = None) -> Values:
        """The claim's value, or another metric, at a point; nothing where it was not run."""
        cells = self.cells.get(tuple(point[axis] for axis in self.axes))
        return self.read(cells, metric or self.claim.value) if cells else {}

    def points(
        self, axis: str, elsewhere: Mapping[str, Label] | None = None
    ) -> tuple[dict[Label, Values], list[Label]]:
        """The claim's values along an axis, and the points that were run, but lack a seed.

        Numbers are in ascending order, words in the file's; elsewhere: the point on the other axes, if there are any.
        """
        position = list(self.axes).index(axis)
        labels: list[Label] = list(dict.fromkeys(labels[position] for labels in self.cells))
        numbers = [label for label in labels if isinstance(label, int | float)]
        if len(numbers) == len(labels):
            labels = list(sorted(numbers))
        known = {label: values for label in labels if (values := self.at({**(elsewhere or {}), axis: label}))}
        seeds = set[int]().union(*known.values())
        left = [label for label, values in known.items() if len(values) < len(seeds)]
        return {label: values for label, values in known.items() if label not in left}, left


class Check(ClaimSpec):
    """A claim with its check. A subclass fixes `check` to its name, and turns a group of cells into evidence."""

    @abstractmethod
    def evidence(self, group: Group) -> Evidence:
        """One number a seed."""

    @property
    def metric(self) -> Metric:
        """What it is about."""
        return METRICS.get(self.value)

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        return shown_as(self.metric.label, self.show)


class PairCheck(Check):
    """About the difference between two points."""

    point: Point
    """labels on some axes"""
    against: Point | None = None
    """other labels on these axes; by default the study's baseline"""

    @property
    def names(self) -> Where:
        """The axes of both points, and their labels."""
        points = (self.point, self.against or {})
        return {axis: [point[axis] for point in points if axis in point] for point in points for axis in point}

    def complaint(self, baseline: Where) -> str | None:
        """What is compared needs something to be compared with."""
        if not self.against and not set(self.point) & set(baseline):
            return "has nothing to compare with; give it 'against', or the study a baseline"
        if extra := set(self.against or {}) - set(self.point):
            return f"against names {min(extra)}, so point must name it too"
        other = self.against or {axis: labels[0] for axis, labels in baseline.items() if axis in self.point}
        if {**self.point, **other} == self.point:
            return f"compares {point_label(self.point)} with itself; name another point, or another 'against'"
        return None

    def other(self, group: Group) -> Point:
        """The point that is compared with."""
        against = self.against or {axis: group.baseline[axis] for axis in self.point if axis in group.baseline}
        return {**self.point, **against}

    def differences(self, group: Group, sign: int = 1) -> Evidence:
        """The paired differences between two points, positive if the first (sign 1) or the second (-1) is larger."""
        other = self.other(group)
        sample = [sign * difference for difference in paired_differences(group.at(self.point), group.at(other))]
        names = (point_label(self.point), point_label(other))
        return Evidence(f"{self.subject}, {' - '.join(names[::sign])}:", sample, digits=self.metric.digits)


class AxisCheck(Check):
    """About the points of an axis."""

    axis: str
    """the axis"""

    @property
    def names(self) -> Where:
        """The axis."""
        return {self.axis: []}

    @property
    def axis_name(self) -> str:
        """The axis, in short."""
        return short(self.axis)


class SweptPairCheck(PairCheck):
    """About two points, each followed along an axis."""

    axis: str
    """the axis along which both are followed"""

    @property
    def names(self) -> Where:
        """The axes of both points with their labels, and the axis."""
        return {**super().names, self.axis: []}

    def complaint(self, baseline: Where) -> str | None:
        """The axis is followed, so no point may lie on it."""
        if self.axis in super().names:
            return f"point names {self.axis}, which it is followed along; name it once"
        return super().complaint(baseline)

    @property
    def axis_name(self) -> str:
        """The axis, in short."""
        return short(self.axis)


C = TypeVar("C", bound=ClaimSpec)


def register_check(check: type[C]) -> type[C]:
    """Decorate a Check subclass; its name is the one that its field `check` fixes."""
    if isabstract(check):
        raise ConfigError(f"{check.__name__}: a check must have a method evidence(self, group)")
    CHECKS.add(fixed_name(check, "check"), check)
    return check


def paired_differences(a: Values, b: Values) -> list[float]:
    """Seed by seed, of the seeds that both have."""
    return [a[seed] - b[seed] for seed in sorted(a) if seed in b]


def point_label(point: Mapping[str, Label]) -> str:
    """A point in words."""
    return ", ".join(map(text_label, point.values()))


def leave_one_out(
    points: Mapping[Label, Values], other: Values, choose: Callable[[Any], Any]
) -> tuple[list[float], list[Label]]:
    """For every seed: (value at the point that `choose` takes by the mean of all other seeds) - other; the choices.

    A single seed has no others: it is its own, and proves nothing.
    """
    seeds = sorted(set(other).intersection(*points.values())) if points else []
    sample, chosen = [], []
    for seed in seeds:
        rest = [s for s in seeds if s != seed] or [seed]
        label = list(points)[int(choose([np.mean([values[s] for s in rest]) for values in points.values()]))]
        sample.append(points[label][seed] - other[seed])
        chosen.append(label)
    return sample, chosen


def slopes(points: Sequence[Values]) -> list[float]:
    """The least-squares slope over points in order (steps count alike), of every seed that all have."""
    seeds = sorted(set(points[0]).intersection(*points)) if len(points) > 1 else []
    return [float(np.polyfit(range(len(points)), [point[seed] for point in points], 1)[0]) for seed in seeds]


def listed(labels: Sequence[Label]) -> str:
    """Different labels, in words."""
    return ", ".join(sorted({text_label(label) for label in labels}))
