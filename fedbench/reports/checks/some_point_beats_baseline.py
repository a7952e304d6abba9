"""Somewhere along an axis the baseline is beaten."""

from typing import Literal

import numpy as np

from fedbench.reports.checks.base import AxisCheck, Evidence, Group, leave_one_out, listed, register_check
from fedbench.specs.names import Where


@register_check
class SomePointBeatsBaseline(AxisCheck):
    """A point of `axis` beats the baseline; each seed is judged at the point that the other seeds like best."""

    check: Literal["some_point_beats_baseline"]

    def complaint(self, baseline: Where) -> str | None:
        """The baseline must be a point of the axis."""
        return None if self.axis in baseline else f"needs a baseline on {self.axis}"

    def evidence(self, group: Group) -> Evidence:
        """The point that the other seeds like best, against the baseline: one difference a seed, none selected on.

        The maximum over points of noisy means lies above the baseline even if no point is better: hence leave one out.
        """
        points, left = group.points(self.axis)
        baseline = points.pop(group.baseline[self.axis], {})
        sample, chosen = leave_one_out(points, baseline, np.argmax)
        text = f"{self.subject}, best {self.axis_name} of the other seeds ({listed(chosen)}) - baseline:"
        return Evidence(text, sample, digits=self.metric.digits, left=left)
