"""Something is the smallest or the largest at one point of an axis."""

from typing import Literal

import numpy as np

from fedbench.reports.checks.base import AxisCheck, Evidence, Group, leave_one_out, listed, register_check
from fedbench.specs.names import Label, Where


@register_check
class Extreme(AxisCheck):
    """The value is the `smallest` or `largest` (`which`) at one label (`at`) of `axis`."""

    check: Literal["extreme"]
    at: Label
    """the label"""
    which: Literal["smallest", "largest"]
    """which extreme"""

    @property
    def names(self) -> Where:
        """The axis, and the label."""
        return {self.axis: [self.at]}

    def evidence(self, group: Group) -> Evidence:
        """The value at one point is below (above) that at its rival, which the other seeds choose."""
        points, left = group.points(self.axis)
        here = points.pop(self.at, {})
        choose, sign = (np.argmin, 1) if self.which == "smallest" else (np.argmax, -1)
        sample, rivals = leave_one_out(points, here, choose)
        text = f"{self.subject}, distance to the next ({self.axis_name} {listed(rivals)}):"
        return Evidence(text, [sign * value for value in sample], digits=self.metric.digits, left=left)
