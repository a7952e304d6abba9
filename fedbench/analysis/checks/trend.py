"""Something rises or falls along an axis."""

from typing import Literal

from fedbench.analysis.checks.base import AxisCheck, Evidence, Group, register_check, slopes


@register_check
class Trend(AxisCheck):
    """The value `rises` or `falls` (`direction`) along `axis`: the slope over its points, in order."""

    check: Literal["trend"]
    direction: Literal["rises", "falls"]
    """which way"""

    def evidence(self, group: Group) -> Evidence:
        """Return the least-squares slope over the points of the axis, which must have the claimed sign."""
        labels, values = group.points(self.axis)
        if len(labels) < 2:
            return group.nothing()
        text = f"{self.subject}, {self.direction.removesuffix('s')} a step of {self.axis}:"
        sample, also = slopes(values, 1 if self.direction == "rises" else -1)
        return Evidence(text, sample, digits=self.metric.digits + 1, also=also, span=len(labels) - 1.0)
