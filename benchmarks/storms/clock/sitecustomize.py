"""A clock that can be set wrong in one process, while it runs: by the file $STORM_CLOCKS/PID, in seconds.

Python imports this at its start because the folder is on PYTHONPATH. The machine's own clock is left alone.
"""

import os
import time

_FOLDER = os.environ.get("STORM_CLOCKS")
_LOOK_SECONDS = 0.5
_time, _localtime, _gmtime, _strftime = time.time, time.localtime, time.gmtime, time.strftime
_offset, _looked = 0.0, 0.0


def _off() -> float:
    """By how much this process's clock is off."""
    global _offset, _looked
    if time.monotonic() - _looked > _LOOK_SECONDS:
        _looked = time.monotonic()
        try:
            with open(f"{_FOLDER}/{os.getpid()}") as stream:
                _offset = float(stream.read() or 0)
        except (OSError, ValueError):
            pass
    return _offset


def _install() -> None:
    """Put it in place of the clock that Python has."""
    time.time = lambda: _time() + _off()
    time.time_ns = lambda: int((_time() + _off()) * 1e9)
    time.localtime = lambda seconds=None: _localtime(time.time() if seconds is None else seconds)
    time.gmtime = lambda seconds=None: _gmtime(time.time() if seconds is None else seconds)
    time.strftime = lambda format_, when=None: _strftime(format_, time.localtime() if when is None else when)


if _FOLDER:
    _install()
