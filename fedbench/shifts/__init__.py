"""How the images of clients differ, one file each: the same classes look different from client to client."""

from fedbench.shifts.base import NO_SHIFT, SHIFTS, Shift, register_shift

__all__ = ["NO_SHIFT", "SHIFTS", "Shift", "register_shift"]
