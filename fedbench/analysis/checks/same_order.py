"""What is ahead at one point is ahead at another, too."""

from typing import Literal

from fedbench.analysis.checks.base import Evidence, Group, SweptPairCheck, point_label, register_check
from fedbench.analysis.statistics.rank_correlation import FEWEST_CELLS, related


@register_check
class SameOrder(SweptPairCheck):
    """The labels of `axis` are in the same order at `point` as at `against` (the baseline), beyond chance."""

    check: Literal["same_order"]

    def evidence(self, group: Group) -> Evidence:
        """Spearman's rank correlation of the values at both points over the labels, by seed, is above 0.

        It takes six labels, and a permutation test over labels must agree.
        """
        other = self.other(group)
        labels, values = group.points(self.axis, self.point)
        others, values_there = group.points(self.axis, other)
        both = [label for label in labels if label in others]
        if len(both) < 3:
            return group.nothing()
        columns, columns_there = (list(map(each.index, both)) for each in (labels, others))
        sample, also = related(values[:, columns], values_there[:, columns_there])
        few = f" (fewer than {FEWEST_CELLS}: open)" if len(both) < FEWEST_CELLS else ""
        names = f"{point_label(self.point)} with {point_label(other)}"
        return Evidence(
            f"{self.subject}, {names}, rank correlation over {len(both)} labels of {self.axis_name}{few}:",
            sample,
            also=also,
            remark="a permutation test over labels must agree",
            decidable=len(both) >= FEWEST_CELLS,
        )
