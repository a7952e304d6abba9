"""The claims of a study file, one class for each kind of check; data only."""

from typing import Annotated, Literal

from pydantic import Field

from fedbench.specs.parts import Label, MetricName, Part, Point, Show, Where


class ClaimSpec(Part):
    """A claim of the paper: what it says, and the check that decides on it, one line for every rest of the axes."""

    says: str
    check: str
    value: MetricName = "test_accuracy"
    show: Show = "value"
    where: Where = Field(default_factory=dict)

    @property
    def names(self) -> Where:
        """The axes that the check uses up, and the labels on them that it names."""
        return {}


class PairSpec(ClaimSpec):
    """About the difference between `point` and `against`, which is the study's baseline by default."""

    point: Point
    against: Point | None = None

    @property
    def names(self) -> Where:
        """The axes that the check uses up, and the labels on them that it names."""
        points = (self.point, self.against or {})
        return {axis: [point[axis] for point in points if axis in point] for point in points for axis in point}


class BeatsSpec(PairSpec):
    """At `point` the value is higher (or lower) than at `against`."""

    check: Literal["beats"]
    wins: Literal["higher", "lower"] = "higher"


class ComparableSpec(PairSpec):
    """The paired difference between two points is within a margin."""

    check: Literal["comparable"]
    margin: Annotated[float, Field(gt=0)]


class AxisSpec(ClaimSpec):
    """About the points of an axis."""

    axis: str

    @property
    def names(self) -> Where:
        """The axes that the check uses up, and the labels on them that it names."""
        return {self.axis: []}


class SomePointSpec(AxisSpec):
    """Some point of an axis beats the baseline; which one, is chosen by the other seeds."""

    check: Literal["some_point_beats_baseline"]


class TrendSpec(AxisSpec):
    """The value rises (or falls) along an axis: the slope over its points, in order."""

    check: Literal["trend"]
    direction: Literal["rises", "falls"]


class ExtremeSpec(AxisSpec):
    """The value is the smallest (or largest) at one point of an axis; its rival is chosen by the other seeds."""

    check: Literal["extreme"]
    at: Label
    which: Literal["smallest", "largest"]

    @property
    def names(self) -> Where:
        """The axes that the check uses up, and the labels on them that it names."""
        return {self.axis: [self.at]}


class WithinSpec(ClaimSpec):
    """The value lies between two bounds."""

    check: Literal["within"]
    low: float = float("-inf")
    high: float = float("inf")


class HigherSpec(ClaimSpec):
    """The value is higher than another metric of the same trial."""

    check: Literal["higher_than"]
    than: MetricName
