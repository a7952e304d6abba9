"""One point beats another."""

from typing import Literal

from fedbench.reports.checks.base import Evidence, Group, PairCheck, register_check


@register_check
class Beats(PairCheck):
    """The value is higher at `point` than at `against` (`wins: lower` for lower), by default the baseline."""

    check: Literal["beats"]
    wins: Literal["higher", "lower"] = "higher"
    """which of two values wins"""

    def evidence(self, group: Group) -> Evidence:
        """The paired difference between two points has the claimed sign."""
        return self.differences(group, 1 if self.wins == "higher" else -1)
