"""What corrupted clients do wrong, one file each: with their labels, or with what they send."""

from fedbench.corruptions.base import CORRUPTIONS, CorruptedCohort, Corruption, register_corruption

__all__ = ["CORRUPTIONS", "CorruptedCohort", "Corruption", "register_corruption"]
