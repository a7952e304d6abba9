"""Inner product manipulation (Xie, Koyejo and Gupta, 2019, "Fall of Empires")."""

from torch import Tensor

from fedbench.corruptions.base import CorruptedCohort, Corruption, register_corruption


@register_corruption()
class Ipm(Corruption):
    """All send w - s mean(w_j - w) over the honest clients j: the honest step turned round; s = 1."""

    name = "ipm"

    def default_scale(self, m: int, k: int) -> float:
        """As long as the honest mean."""
        return 1.0

    def updates(self, cohort: CorruptedCohort) -> Tensor:
        """The same for all [k, P]; what they trained where the cohort has no honest client."""
        if not len(cohort.honest):
            return cohort.own
        step = (cohort.honest - cohort.w).mean(0)
        return (cohort.w - cohort.scale * step).expand_as(cohort.own)
