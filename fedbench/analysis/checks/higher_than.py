"""One metric is higher than another."""

from typing import Literal

import numpy as np

from fedbench.analysis.checks.base import Check, Evidence, Group, difference, register_check
from fedbench.metrics import METRICS
from fedbench.specs.parts import MetricName


@register_check
class HigherThan(Check):
    """The value is higher than the metric `than` of the same trials."""

    check: Literal["higher_than"]
    than: MetricName
    """the other metric"""

    def evidence(self, group: Group) -> Evidence:
        """Return the difference of the two metrics."""
        sample = difference(group.at({}), group.at({}, self.than))
        text = f"{self.metric.label} - {METRICS.get(self.than).label}:"
        return Evidence(text, np.where(np.isinf(sample), np.nan, sample), digits=self.metric.digits, span=1.0)
