"""Two points are about as good."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from fedbench.reports.checks.base import Evidence, Group, PairCheck, register_check


@register_check
class Comparable(PairCheck):
    """The difference between `point` and `against` (the baseline) is within `margin`."""

    check: Literal["comparable"]
    margin: Annotated[float, Field(gt=0)]
    """how large a difference may be, to either side"""

    def evidence(self, group: Group) -> Evidence:
        """The paired difference between two points is within the margin."""
        difference = self.differences(group)
        text = f"{difference.text.rstrip(':')} (margin {self.margin:g}):"
        return replace(difference, text=text, low=-self.margin, high=self.margin)
