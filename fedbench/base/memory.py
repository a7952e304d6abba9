"""Give memory that was freed back to the system."""

import ctypes
import sys


def return_memory() -> None:
    """Give freed memory back to the system. Glibc keeps it otherwise; on other systems nothing happens."""
    if trim := getattr(ctypes.CDLL(None) if sys.platform == "linux" else None, "malloc_trim", None):
        trim(0)
