"""Something lies between two bounds."""

from typing import Literal

from pydantic import model_validator

from fedbench.base.fields import wrong
from fedbench.reports.checks.base import Check, Evidence, Group, register_check

INFINITE = float("inf")


@register_check
class Within(Check):
    """The value lies between `low` and `high`, or on one side of one of them."""

    check: Literal["within"]
    low: float = -INFINITE
    """the lower bound, if any"""
    high: float = INFINITE
    """the upper bound, if any"""

    @model_validator(mode="after")
    def _check_bounds(self) -> "Within":
        if (self.low, self.high) == (-INFINITE, INFINITE):
            raise wrong("needs a bound; give it low, or high, or both")
        if self.low >= self.high:
            raise wrong(f"low = {self.low:g}: must be below high, {self.high:g}")
        return self

    def evidence(self, group: Group) -> Evidence:
        """The value itself."""
        bounds = f"between {self.low:g} and {self.high:g}"
        if self.low == -INFINITE or self.high == INFINITE:
            bounds = f"below {self.high:g}" if self.low == -INFINITE else f"above {self.low:g}"
        values = list(group.at({}).values())
        return Evidence(f"{self.subject} ({bounds}):", values, self.low, self.high, self.metric.digits)
