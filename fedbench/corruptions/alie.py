"""A little is enough (Baruch, Baruch and Goldberg, 2019): as far from the honest mean as one can go unseen."""

from statistics import NormalDist

from torch import Tensor

from fedbench.corruptions.base import CorruptedCohort, Corruption, register_corruption


def largest_unseen(m: int, k: int) -> float:
    """The z = Phi^-1((m - k - s) / (m - k)) beyond which s = floor(m / 2) + 1 - k of the honest clients are expected.

    With these s the k corrupted ones are a majority. A single one of them has z <= 0; where they are a majority anyway,
    s is 1; with one honest client, around whom there is no spread, z is 0.
    """
    honest, support = m - k, max(1, m // 2 + 1 - k)
    return NormalDist().inv_cdf((honest - support) / honest) if honest > support else 0.0


@register_corruption()
class Alie(Corruption):
    """All send mean - z std of the honest clients' models, by coordinate; z by m and k unless the scale sets it."""

    name = "alie"

    def default_scale(self, m: int, k: int) -> float:
        """The paper's z for the cohort at hand."""
        return largest_unseen(m, k)

    def updates(self, cohort: CorruptedCohort) -> Tensor:
        """The same for all [k, P], std with h - 1; what they trained where there is no honest client to hide behind."""
        if not len(cohort.honest):
            return cohort.own
        sent = cohort.honest.mean(0)
        if len(cohort.honest) > 1:
            sent.sub_(cohort.honest.std(0), alpha=cohort.scale)
        return sent.expand_as(cohort.own)
