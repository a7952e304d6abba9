"""Updates that point the other way."""

from torch import Tensor

from fedbench.corruptions.base import CorruptedCohort, Corruption, register_corruption


@register_corruption()
class SignFlip(Corruption):
    """Sends w - s (w_i - w), the client's own update turned round; s = 1."""

    name = "sign_flip"

    def default_scale(self, m: int, k: int) -> float:
        """As long as the honest update."""
        return 1.0

    def updates(self, cohort: CorruptedCohort) -> Tensor:
        """Each of its own [k, P]."""
        return cohort.w - cohort.scale * (cohort.own - cohort.w)
