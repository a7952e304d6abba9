"""The best point of an axis is neither of its ends."""

from typing import Literal

from fedbench.analysis.checks.base import AxisCheck, Evidence, Group, difference, register_check
from fedbench.analysis.statistics.verdicts import INNER


@register_check
class InnerOptimum(AxisCheck):
    """A point between the ends of `axis` is better than both of them; it fails if one end beats all between them."""

    check: Literal["inner_optimum"]
    best: Literal["highest", "lowest"] = "highest"
    """which values are good"""

    def evidence(self, group: Group) -> Evidence:
        """Return the differences between every inner point and both ends."""
        labels, values = group.points(self.axis)
        if len(labels) < 3:
            return group.nothing()
        sign = 1 if self.best == "highest" else -1
        sample = sign * difference(values[:, 1:-1, None], values[:, None, [0, -1]])
        text = f"{self.subject}, best of {len(labels) - 2} inner points of {self.axis_name} - the better end:"
        return Evidence(text, sample, digits=self.metric.digits, rule=INNER, names=labels[1:-1], span=1.0)
