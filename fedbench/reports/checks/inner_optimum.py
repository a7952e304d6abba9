"""The best point of an axis is neither of its ends."""

from typing import Literal

import numpy as np

from fedbench.reports.checks.base import AxisCheck, Evidence, Group, leave_one_out, listed, register_check


@register_check
class InnerOptimum(AxisCheck):
    """Both ends of `axis` are worse than a point between them; each seed is judged at the other seeds' choice."""

    check: Literal["inner_optimum"]
    best: Literal["highest", "lowest"] = "highest"
    """which values are good"""

    def evidence(self, group: Group) -> Evidence:
        """The distance between the best inner point, which the other seeds choose, and the better end."""
        points, left = group.points(self.axis)
        if len(points) < 3 or left:  # what is left out may be an end
            return Evidence("", [])
        sign, choose = (1, np.argmax) if self.best == "highest" else (-1, np.argmin)
        first, *inner, last = points
        seeds = points[first].keys() & points[last].keys()
        ends = {seed: sign * max(sign * points[end][seed] for end in (first, last)) for seed in seeds}
        sample, chosen = leave_one_out({label: points[label] for label in inner}, ends, choose)
        text = f"{self.subject}, best inner {self.axis_name} of the other seeds ({listed(chosen)}) - the better end:"
        return Evidence(text, [sign * value for value in sample], digits=self.metric.digits)
