"""What a run can record beside its scores, one file each: settings, schedule, formula, columns, labels."""

from fedbench.indicators.base import (
    INDICATORS,
    Column,
    Indicator,
    Moment,
    Observation,
    RoundContext,
    RoundMoment,
    Rows,
    RunContext,
    indicator_settings,
    register_indicator,
)

__all__ = [
    "INDICATORS",
    "Column",
    "Indicator",
    "Moment",
    "Observation",
    "RoundContext",
    "RoundMoment",
    "Rows",
    "RunContext",
    "indicator_settings",
    "register_indicator",
]
