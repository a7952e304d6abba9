"""The distance between two points grows or shrinks along an axis."""

from typing import Literal

from fedbench.analysis.checks.base import (
    Evidence,
    Group,
    SweptPairCheck,
    difference,
    point_label,
    register_check,
    slopes,
)


@register_check
class TrendOfDifference(SweptPairCheck):
    """`point` less `against` (the baseline) `rises` or `falls` (`direction`) along `axis`: the slope, in order."""

    check: Literal["trend_of_difference"]
    direction: Literal["rises", "falls"]
    """which way"""

    def evidence(self, group: Group) -> Evidence:
        """Return the least-squares slope of the paired difference, which must have the claimed sign."""
        labels, values = group.points(self.axis, self.point)
        others, values_there = group.points(self.axis, self.other(group))
        both = [label for label in labels if label in others]
        if len(both) < 2:
            return group.nothing()
        columns, columns_there = (list(map(each.index, both)) for each in (labels, others))
        distances = difference(values[:, columns], values_there[:, columns_there])
        names = f"{point_label(self.point)} - {point_label(self.other(group))}"
        text = f"{self.subject}, {names}, {self.direction.removesuffix('s')} a step of {self.axis}:"
        sample, also = slopes(distances, 1 if self.direction == "rises" else -1)
        return Evidence(text, sample, digits=self.metric.digits + 1, also=also, span=len(both) - 1.0)
