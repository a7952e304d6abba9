"""Something varies less along an axis at one point than at another."""

from typing import Literal

from fedbench.analysis.checks.base import Evidence, Group, SweptPairCheck, difference, point_label, register_check
from fedbench.analysis.statistics.verdicts import Array
from fedbench.specs.names import Point


@register_check
class Steadier(SweptPairCheck):
    """The value varies less along `axis` at `point` than at `against` (the baseline): largest less smallest."""

    check: Literal["steadier"]

    def evidence(self, group: Group) -> Evidence:
        """Return the range at the other point less the range at this one."""
        other, here = self._range(group, self.other(group)), self._range(group, self.point)
        if other is None or here is None:
            return group.nothing()
        sample = difference(other, here)
        names = f"{point_label(self.other(group))} - {point_label(self.point)}"
        return Evidence(
            f"{self.subject}, range over {self.axis_name}, {names}:", sample, digits=self.metric.digits, span=1.0
        )

    def _range(self, group: Group, at: Point) -> Array | None:
        """Largest less smallest along the axis, by seed (infinite where some diverged); None for a single point."""
        labels, values = group.points(self.axis, at)
        return difference(values.max(axis=1), values.min(axis=1)) if len(labels) > 1 else None
