"""The median of every coordinate, moved a step from the old model."""

from typing import Annotated, Literal

from pydantic import Field

from fedbench.methods import Cohort, Method, MethodSettings, Server, Update, register_method


class MyMedianSettings(MethodSettings):
    """How far to move."""

    name: Literal["my_median"] = "my_median"
    step: Annotated[float, Field(gt=0, le=1)] = 1.0
    """how far the model moves towards the median"""


@register_method()
class MyMedian(Method[MyMedianSettings]):
    """The coordinate-wise median of the clients' models."""

    Settings = MyMedianSettings

    def aggregate(self, cohort: Cohort, state: object, server: Server) -> Update:
        """Move a step towards the median: w + step * (median(W) - w)."""
        w = cohort.w + self.settings.step * (cohort.W.median(0).values - cohort.w)
        return Update(w=w, lambda_=cohort.p)
