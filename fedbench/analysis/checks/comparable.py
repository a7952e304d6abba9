"""Two points are about as good."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from fedbench.analysis.checks.base import Evidence, Group, PairCheck, register_check


@register_check
class Comparable(PairCheck):
    """The difference between `point` and `against` (the baseline) is within `margin`, with all of its 95 % interval.

    So it holds wrongly in at most 2.5 % of all cases (two one-sided tests at that level), and fails wrongly in at most
    2.5 % on each side.
    """

    check: Literal["comparable"]
    margin: Annotated[float, Field(gt=0)]
    """how large a difference may be, to either side"""

    def evidence(self, group: Group) -> Evidence:
        """Return the paired difference between the two points, which must lie within the margin."""
        difference = self.differences(group)
        text = f"{difference.text.rstrip(':')} (margin {self.margin:g}, two one-sided tests at 2.5 %):"
        return replace(difference, text=text, low=-self.margin, high=self.margin, span=None)
