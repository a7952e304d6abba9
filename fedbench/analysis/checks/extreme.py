"""Something is the smallest or the largest at one point of an axis."""

from typing import Literal

from fedbench.analysis.checks.base import AxisCheck, Evidence, Group, difference, register_check
from fedbench.analysis.statistics.verdicts import EVERY
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
        """Return the axis, and the label that is claimed to be extreme."""
        return {self.axis: [self.at]}

    def evidence(self, group: Group) -> Evidence:
        """Return the differences to every other point: all must be positive; the claim fails if one is negative."""
        labels, values = group.points(self.axis)
        if self.at not in labels or len(labels) < 2:
            return group.nothing()
        here = labels.index(self.at)
        others = [number for number in range(len(labels)) if number != here]
        sign = 1 if self.which == "largest" else -1
        sample = sign * difference(values[:, [here]], values[:, others])
        text = f"{self.subject}, distance to the nearest of {len(others)} others along {self.axis_name}:"
        names = [labels[number] for number in others]
        return Evidence(text, sample, digits=self.metric.digits, rule=EVERY, names=names, span=1.0)
