"""One point beats another."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from fedbench.analysis.checks.base import Evidence, Group, PairCheck, register_check


@register_check
class Beats(PairCheck):
    """The value is higher at `point` than at `against` (`wins: lower` for lower), by default the baseline."""

    check: Literal["beats"]
    wins: Literal["higher", "lower"] = "higher"
    """which of two values wins"""
    by: Annotated[float, Field(ge=0)] = 0.0
    """how much the difference must be above"""

    def evidence(self, group: Group) -> Evidence:
        """Return the paired difference between the two points, with the claimed sign and least size."""
        difference = self.differences(group, 1 if self.wins == "higher" else -1)
        text = f"{difference.text.rstrip(':')} (above {self.by:g}):" if self.by else difference.text
        return replace(difference, text=text, low=self.by, span=None if self.by else 1.0)
