"""Something varies less along an axis at one point than at another."""

from typing import Literal

from fedbench.reports.checks.base import (
    Evidence,
    Group,
    SweptPairCheck,
    Values,
    paired_differences,
    point_label,
    register_check,
)
from fedbench.specs.names import Point


@register_check
class Steadier(SweptPairCheck):
    """The value varies less along `axis` at `point` than at `against` (the baseline): largest less smallest."""

    check: Literal["steadier"]

    def evidence(self, group: Group) -> Evidence:
        """The range at the other point less the range at this one."""
        sample = paired_differences(self._range(group, self.other(group)), self._range(group, self.point))
        names = f"{point_label(self.other(group))} - {point_label(self.point)}"
        return Evidence(f"{self.subject}, range over {self.axis_name}, {names}:", sample, digits=self.metric.digits)

    def _range(self, group: Group, at: Point) -> Values:
        """Largest less smallest along the axis, by seed; nothing where a point lacks a seed, or there is only one."""
        points, left = group.points(self.axis, at)
        if left or len(points) < 2:
            return {}
        values = {seed: [point[seed] for point in points.values()] for seed in next(iter(points.values()))}
        return {seed: max(row) - min(row) for seed, row in values.items()}
