"""Something lies between two bounds."""

from typing import Literal

import numpy as np
from pydantic import model_validator

from fedbench.analysis.checks.base import Check, Evidence, Group, register_check
from fedbench.base.fields import invalid

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
            raise invalid("needs a bound; give it low, or high, or both")
        if self.low >= self.high:
            raise invalid(f"low = {self.low:g}: must be below high, {self.high:g}")
        return self

    def evidence(self, group: Group) -> Evidence:
        """Return the value itself as evidence.

        A value that is compared with nothing and diverged in all n seeds is beyond a bound with a p value of 2^-n: so
        probable is this if half of all runs diverge, and if more of them do, the claim is false.
        """
        bounds = f"between {self.low:g} and {self.high:g}"
        if self.low == -INFINITE or self.high == INFINITE:
            bounds = f"below {self.high:g}" if self.low == -INFINITE else f"above {self.low:g}"
        sample = group.at({})
        alone = np.where(np.isinf(sample).all(axis=0) & (self.show == "value"), 0.5 ** len(sample), 0.0)
        text, also = f"{self.subject} ({bounds}):", (alone, alone)
        return Evidence(text, sample, self.low, self.high, self.metric.digits, also=also)
