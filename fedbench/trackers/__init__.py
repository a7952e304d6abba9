"""Trackers, one file each: listeners that show a run's rounds elsewhere. `--track NAME` asks for one."""

from fedbench.trackers.base import TRACKERS, Tracker, check_trackers, register_tracker
from fedbench.trackers.guard import CommandTrackers, tracked, trackers_of

__all__ = [
    "TRACKERS",
    "CommandTrackers",
    "Tracker",
    "check_trackers",
    "register_tracker",
    "tracked",
    "trackers_of",
]
