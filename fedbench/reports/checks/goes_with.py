"""One metric goes with another over the cells of a study."""

from typing import Literal

import numpy as np

from fedbench.reports.checks.base import Check, Evidence, Group, register_check
from fedbench.specs.names import Where
from fedbench.specs.parts import MetricName
from fedbench.store.metrics import METRICS


@register_check
class GoesWith(Check):
    """Over all cells of `axes` the value is the larger (`direction: rises`), or the smaller, the larger `other` is."""

    check: Literal["goes_with"]
    other: MetricName
    """the other metric"""
    axes: list[str]
    """the axes whose cells are compared"""
    direction: Literal["rises", "falls"]
    """which way"""

    @property
    def names(self) -> Where:
        """The axes."""
        return {axis: [] for axis in self.axes}

    def evidence(self, group: Group) -> Evidence:
        """Spearman's rank correlation over the cells, by seed; of the seeds that all cells have."""
        pairs = [(group.read(cells, self.value), group.read(cells, self.other)) for cells in group.cells.values()]
        seeds = sorted(set.intersection(*({*mine} & {*other} for mine, other in pairs))) if len(pairs) > 2 else []
        sign = 1 if self.direction == "rises" else -1
        sample = [sign * _spearman([(mine[seed], other[seed]) for mine, other in pairs]) for seed in seeds]
        words = "rank correlation" if sign > 0 else "- rank correlation"
        text = f"{self.metric.label} with {METRICS.get(self.other).label}, {words} over {len(pairs)} cells:"
        return Evidence(text, [value for value in sample if np.isfinite(value)])


def _spearman(pairs: list[tuple[float, float]]) -> float:
    """Spearman's rank correlation; nan where one side does not vary."""
    import pandas as pd

    return float(pd.DataFrame(pairs).rank().corr().iloc[0, 1])
