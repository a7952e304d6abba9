"""Krum: the model whose neighbours are nearest; multi-Krum: the mean of the best of them (Blanchard et al., 2017)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.base.fields import Count
from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.robust import Needs, RobustSettings, ascending, seen, squared_distances


class KrumSettings(RobustSettings):
    """How many models are selected."""

    name: Literal["krum"] = "krum"
    keep: Count | None = 1
    """how many of the best models are averaged; null for m - f (multi-Krum)"""
    needs = Needs(2, 3)

    def check(self, cohort: int) -> str | None:
        """There must be so many to keep."""
        if self.keep is not None and self.keep > cohort:
            return f"method.keep = {self.keep}: there are {cohort} clients in a round; must be at most {cohort}"
        return super().check(cohort)


@register_method()
class Krum(Method[KrumSettings]):
    """s_i = the sum of |w_i - w_j|^2 over the m - f - 2 models w_j nearest to w_i; m > 2f + 2.

    w_g' = the unweighted mean of the `keep` models with the least s; of equals, the lower client id. (Blanchard,
    El Mhamdi, Guerraoui and Stainer: Machine learning with adversaries, 2017.)
    """

    Settings = KrumSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The mean of the best."""
        mix, G = seen(cohort, self.settings, cohort.w)
        m, f = len(G), self.settings.corrupt(len(G))
        keep = self.settings.keep or m - f
        best = scores(squared_distances(G), m - f - 2).argsort(stable=True)[:keep]
        chosen = torch.zeros(m, dtype=torch.float64).index_fill_(0, best, 1 / keep)
        lambda_ = mix.weights(chosen).to(cohort.p)
        return Update(w=cohort.combine(lambda_), lambda_=lambda_)


def scores(distances: Tensor, neighbours: int) -> Tensor:
    """The sum of every row's smallest squared distances to others [k]; distances [k, k] have 0 on the diagonal."""
    others = ascending(distances.clone().fill_diagonal_(-1))[:, 1:]
    return others[:, :neighbours].sum(1)
