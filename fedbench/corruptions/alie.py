"""A little is enough (Baruch, Baruch and Goldberg, 2019): as far from the honest mean as one can go unseen."""

from statistics import NormalDist

from torch import Tensor

from fedbench.corruptions.base import CorruptedCohort, Corruption, register_corruption


def largest_unseen(m: int, k: int) -> float:
    """z = Phi^-1((m - k - s) / (m - k)), where s = floor(m / 2) + 1 - k honest clients must side with the corrupted.

    Below 0 where the corrupted are too few for that (k < 2 or so). Of a majority, which needs no support, s is 1;
    with one honest client, around whom there is no spread, z is 0.
    """
    honest, support = m - k, max(1, m // 2 + 1 - k)
    return NormalDist().inv_cdf((honest - support) / honest) if honest > support else 0.0


@register_corruption()
class Alie(Corruption):
    """All send mean - z std of the honest clients' models, by coordinate (std with n - 1); z by m and k, or the scale."""

    name = "alie"

    def default_scale(self, m: int, k: int) -> float:
        """The paper's z for the cohort at hand."""
        return largest_unseen(m, k)

    def updates(self, cohort: CorruptedCohort) -> Tensor:
        """The same for all [k, P]; honest ones where the cohort has no honest client to hide behind."""
        if not len(cohort.honest):
            return cohort.own
        sent = cohort.honest.mean(0)
        if len(cohort.honest) > 1:
            sent.sub_(cohort.honest.std(0), alpha=cohort.scale)
        return sent.expand_as(cohort.own)
