"""The distance between two points grows or shrinks along an axis."""

from typing import Literal

from fedbench.reports.checks.base import Evidence, Group, SweptPairCheck, point_label, register_check, slopes


@register_check
class TrendOfDifference(SweptPairCheck):
    """`point` less `against` (the baseline) `rises` or `falls` (`direction`) along `axis`: the slope, in order."""

    check: Literal["trend_of_difference"]
    direction: Literal["rises", "falls"]
    """which way"""

    def evidence(self, group: Group) -> Evidence:
        """The least-squares slope of the paired difference has the claimed sign."""
        points, left = group.points(self.axis, self.point)
        others, left_there = group.points(self.axis, self.other(group))
        both = [label for label in points if label in others]
        distances = [
            {seed: points[label][seed] - others[label][seed] for seed in points[label] if seed in others[label]}
            for label in both
        ]
        sign = 1 if self.direction == "rises" else -1
        names = f"{point_label(self.point)} - {point_label(self.other(group))}"
        text = f"{self.subject}, {names}, {self.direction.removesuffix('s')} a step of {self.axis}:"
        sample = [sign * slope for slope in slopes(distances)]
        return Evidence(text, sample, digits=self.metric.digits + 1, left=[*left, *left_there])
