"""Trackers, one file each: listeners that show a run's rounds elsewhere. `--track NAME` asks for one."""

from fedbench.store.trackers.base import TRACKERS, Tracker, register_tracker, trackers_of

__all__ = ["TRACKERS", "Tracker", "register_tracker", "trackers_of"]
