"""Trimmed mean: of every coordinate without its f largest and f smallest values (Yin et al., 2018)."""

from typing import Literal

from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.robust import MINORITY, RobustSettings, coordinate_update, mixing


class TrimmedMeanSettings(RobustSettings):
    """How many values are trimmed."""

    name: Literal["trimmed_mean"] = "trimmed_mean"
    needs = MINORITY


@register_method()
class TrimmedMean(Method[TrimmedMeanSettings]):
    """w_g'[k] = 1 / (m - 2f) * the sum of w_i[k] but for the f largest and the f smallest; m > 2f.

    Unweighted; at f = 0 the plain mean. Running statistics likewise. (Yin, Chen, Ramchandran and Bartlett:
    Byzantine-robust distributed learning, 2018.)
    """

    Settings = TrimmedMeanSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The mean of what is left of every coordinate."""
        m = len(cohort.W)
        f = self.settings.corrupt(m)
        return coordinate_update(
            cohort, mixing(cohort, self.settings).rows, lambda ordered: ordered[:, f : m - f].mean(1)
        )
