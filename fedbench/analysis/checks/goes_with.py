"""One metric goes with another over the cells of a study."""

from typing import Literal

import numpy as np

from fedbench.analysis.checks.base import Check, Evidence, Group, register_check
from fedbench.analysis.statistics.rank_correlation import FEWEST_CELLS, related
from fedbench.metrics import METRICS
from fedbench.specs.names import Where
from fedbench.specs.parts import MetricName


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
        """Return the axes, without labels."""
        return {axis: [] for axis in self.axes}

    @property
    def swept(self) -> list[str]:
        """Return the axes, of which every point is needed."""
        return self.axes

    def evidence(self, group: Group) -> Evidence:
        """Return Spearman's rank correlation over the cells, by seed; only seeds that all cells have count.

        Cells that have nothing to do with each other may be in the same order in all seeds. So the mean ranks of the
        cells must be related beyond chance, too: by a permutation test over cells, of which there must be six.
        """
        mine, other = (np.stack([group.read(c, name) for c in group.cells.values()], 1) for name in self._metrics)
        cells = mine.shape[1]
        if cells < 3:
            return group.nothing()
        sign = 1 if self.direction == "rises" else -1
        sample, also = related(mine, other, sign)
        words = "rank correlation" if sign > 0 else "- rank correlation"
        few = f" (fewer than {FEWEST_CELLS}: open)" if cells < FEWEST_CELLS else ""
        text = f"{self.metric.label} with {METRICS.get(self.other).label}, {words} over {cells} cells{few}:"
        return Evidence(
            text,
            sample,
            also=also,
            remark="a permutation test over cells must agree",
            decidable=cells >= FEWEST_CELLS,
        )

    @property
    def _metrics(self) -> tuple[str, str]:
        return self.value, self.other
