"""Clients that send back what they were sent (the error model of FedHAW, Nakai-Kasai and Wadayama, 2026)."""

from torch import Tensor

from fedbench.corruptions.base import CorruptedCohort, Corruption, register_corruption


@register_corruption()
class Stale(Corruption):
    """Sends the global model w of before the round, with the server's running statistics."""

    name = "stale"

    def updates(self, cohort: CorruptedCohort) -> Tensor:
        """The old model, k times [k, P]."""
        return cohort.w.expand_as(cohort.own)

    def statistics(self, cohort: CorruptedCohort) -> Tensor:
        """The old ones, k times [k, Q]."""
        return cohort.buffers.expand_as(cohort.statistics)
