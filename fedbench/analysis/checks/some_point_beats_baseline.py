"""Somewhere along an axis the baseline is beaten."""

from typing import Literal

from fedbench.analysis.checks.base import AxisCheck, Evidence, Group, difference, register_check
from fedbench.analysis.statistics.verdicts import SOME
from fedbench.specs.names import Where


@register_check
class SomePointBeatsBaseline(AxisCheck):
    """A point of `axis` beats the baseline; it fails if the baseline beats all of them."""

    check: Literal["some_point_beats_baseline"]

    def complaint(self, baseline: Where) -> str | None:
        """Return an error if the baseline is no point of the axis."""
        return None if self.axis in baseline else f"needs a baseline on {self.axis}"

    def evidence(self, group: Group) -> Evidence:
        """Return the difference between every point and the baseline."""
        labels, values = group.points(self.axis)
        baseline = group.baseline[self.axis]
        if baseline not in labels or len(labels) < 2:
            return group.nothing()
        start = labels.index(baseline)
        others = [number for number in range(len(labels)) if number != start]
        sample = difference(values[:, others], values[:, [start]])
        text = f"{self.subject}, best of {len(others)} points of {self.axis_name} - baseline:"
        names = [labels[number] for number in others]
        return Evidence(text, sample, digits=self.metric.digits, rule=SOME, names=names, span=1.0)
