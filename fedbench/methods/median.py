"""Median: that of every coordinate (Yin et al., 2018)."""

from typing import Literal

from fedbench.methods.base import Cohort, Method, Server, State, Update, register_method
from fedbench.methods.robust import RobustSettings, coordinate_update, middle, mixing


class MedianSettings(RobustSettings):
    """The settings of the mixing, which alone uses f."""

    name: Literal["median"] = "median"


@register_method()
class Median(Method[MedianSettings]):
    """w_g'[k] = median_i w_i[k] for every coordinate k; of an even number, the mean of the two in the middle.

    Unweighted. Running statistics likewise. (Yin, Chen, Ramchandran and Bartlett: Byzantine-robust distributed
    learning, 2018.)
    """

    Settings = MedianSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The coordinate-wise median."""
        return coordinate_update(cohort, mixing(cohort, self.settings).rows, middle)
