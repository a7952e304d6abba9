"""Bulyan: a trimmed mean around the median of models that Krum selects (El Mhamdi et al., 2018)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.krum import scores
from fedbench.methods.robust import Needs, RobustSettings, coordinate_update, middle, seen, squared_distances


class BulyanSettings(RobustSettings):
    """Those of all robust rules."""

    name: Literal["bulyan"] = "bulyan"
    needs = Needs(4, 3)


@register_method()
class Bulyan(Method[BulyanSettings]):
    """Krum takes theta = m - 2f models, one after the other, each from those that are left; m >= 4f + 3.

    w_g'[k] = the mean of the theta - 2f of their values w_i[k] that are closest to their median. Unweighted. Running
    statistics of the same models likewise. Where k models are left, a score counts the k - f - 2 nearest, at least 1;
    of equals, the lower client id goes first. (El Mhamdi, Guerraoui and Rouault: The hidden vulnerability of
    distributed learning in Byzantium, 2018.)
    """

    Settings = BulyanSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Select, then average around the median."""
        mix, G = seen(cohort, self.settings, cohort.w)
        f, mix = self.settings.corrupt(len(G)), mix.like(cohort.W)
        chosen = select(squared_distances(G), f).to(cohort.W.device)
        return coordinate_update(
            cohort, lambda X: mix.rows(X)[chosen], lambda ordered: mean_around_median(ordered, 2 * f)
        )


def select(distances: Tensor, f: int) -> Tensor:
    """The indices of the theta = m - 2f models that Krum takes one by one, from squared distances [m, m]."""
    left = torch.arange(len(distances))
    chosen = []
    for k in range(len(distances), 2 * f, -1):
        rest = distances[left][:, left]
        first = int(scores(rest, max(1, k - f - 2)).argmin())
        chosen.append(int(left[first]))
        left = left[left != left[first]]
    return torch.tensor(chosen)


def mean_around_median(ordered: Tensor, dropped: int) -> Tensor:
    """The mean [K] of all but `dropped` of the sorted values [K, k]: of those closest to the median.

    They lie side by side: their run starts after every value that is further from the median than the one that would
    take its place, a run's length on.
    """
    length = ordered.shape[1] - dropped
    centre = middle(ordered)[:, None]
    start = (centre - ordered[:, :dropped] > ordered[:, length:] - centre).sum(1, keepdim=True)
    return ordered.gather(1, start + torch.arange(length, device=ordered.device)).mean(1)
