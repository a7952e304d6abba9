"""The plan of a study's seeds: their order, after how many of them results are judged, and at which levels.

A plan is fixed before its first look and stored beside the study's results, so that neither seeds, nor margins, nor the
number of looks can be chosen by what was seen. A study file's own seeds are a plan with one look.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import Field, model_validator

from fedbench.base.fields import Strict, invalid
from fedbench.metrics import METRICS

LEVEL = 0.05  # of all looks of a plan together
SHARES = {3: 0.16, 5: 0.24, 8: 0.28, 12: 0.32, 20: 0.25}  # of the level, in proportion, for the looks of a plan


class Look(NamedTuple):
    """One look at the results: after so many seeds of the plan, at such a two-sided level."""

    seeds: int
    level: float


class Plan(Strict):
    """Which seeds are run, and after how many of them claims and comparisons are judged."""

    seeds: list[int] = Field(min_length=1)
    """all seeds that may be run, in their order"""
    looks: list[Look] = Field(min_length=1)
    """the numbers of seeds after which results are judged, each with its part of the level of 5 %"""
    margins: dict[str, float | None]
    """differences that are too small to matter, by metric; a metric that is not named has its usual margin"""
    fixed_before: int | None = None
    """how many seeds a plan with one look had that was stored before this one; null if there was none"""

    @model_validator(mode="after")
    def _check(self) -> "Plan":
        counts = [look.seeds for look in self.looks]
        if counts != sorted(set(counts)) or counts[0] < 1 or counts[-1] != len(self.seeds):
            raise invalid(f"looks at {counts} seeds: must rise, and end with all {len(self.seeds)} seeds")
        if any(look.level <= 0 for look in self.looks) or sum(look.level for look in self.looks) > LEVEL + 1e-9:
            raise invalid(f"looks: levels must be above 0, and at most {LEVEL} together")
        return self

    @property
    def decides(self) -> bool:
        """Return whether seeds are added until claims and comparisons are decided."""
        return len(self.looks) > 1

    @property
    def text(self) -> str:
        """The looks and the seeds in words."""
        seeds = ", ".join(map(str, self.seeds))
        if not self.decides:
            return f"one look at {len(self.seeds)} seeds ({seeds})"
        counts = [str(look.seeds) for look in self.looks]
        return f"looks at {', '.join(counts[:-1])} and {counts[-1]} seeds ({seeds})"

    def at(self, look: Look) -> list[int]:
        """Return the seeds of a look."""
        return self.seeds[: look.seeds]

    def margin(self, metric: str) -> float | None:
        """The difference in a metric that is too small to matter; None if no difference is."""
        return self.margins.get(metric, METRICS.get(metric).margin)


def fixed_plan(seeds: Sequence[int], margins: Mapping[str, float | None]) -> Plan:
    """The plan with one look, at all of a study file's seeds."""
    return Plan(seeds=list(seeds), looks=[Look(len(seeds), LEVEL)], margins=dict(margins))


def deciding_plan(
    seeds: Sequence[int], most: int, margins: Mapping[str, float | None], fixed_before: int | None = None
) -> Plan:
    """The plan with looks at 3, 5, 8, ... seeds: the file's own, then the whole numbers after the largest of them."""
    counts = [count for count in SHARES if count <= most]
    total = sum(SHARES[count] for count in counts)
    looks = [Look(count, round(LEVEL * SHARES[count] / total, 6)) for count in counts]
    following = range(max(seeds) + 1, max(seeds) + 1 + most)
    order = [*seeds, *following][:most]
    return Plan(seeds=order, looks=looks, margins=dict(margins), fixed_before=fixed_before)
