"""L-DAWA: layers of clients weighed by their angle to the global model's (Rehman et al., ICCV 2023)."""

from typing import Literal

import torch
from torch import Tensor

from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method
from fedbench.methods.geometry import cosines, norm
from fedbench.models import LayerGroups


class LDawaSettings(MethodSettings):
    """What counts as a layer."""

    name: Literal["l_dawa"] = "l_dawa"
    groups: LayerGroups = "module"
    """what a layer is: a module with all its parameters, or every tensor by itself"""


@register_method()
class LDawa(Method[LDawaSettings]):
    """w_l <- (1/m) sum_i cos(w_i,l, w_l) w_i,l for each layer l: no data sizes, and weights that sum to less than 1.

    A layer of the global model that is zero has no angle: its clients count in full. lambda, which is recorded and
    averages running statistics, is each client's mean cosine over all parameters, normalised. The recorded cosine is
    their mean over the clients.
    """

    Settings = LDawaSettings
    metrics = {"ldawa_cosine": "cosine of clients' layers with the global ones, mean"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average layer by layer."""
        mean, whole = torch.empty_like(cohort.w), torch.zeros_like(cohort.p, dtype=torch.float64)
        for span in cohort.layers.by(self.settings.groups):
            w, W = cohort.w[span.at], cohort.W[:, span.at]
            lengths, length = torch.linalg.vector_norm(W, dim=1, dtype=torch.float64), norm(w)
            cosine = torch.where(length > 0, cosines((W @ w).to(torch.float64), lengths, length), 1.0)
            mean[span.at] = (cosine / len(W)).to(W) @ W
            whole += (span.stop - span.start) / len(cohort.w) * cosine
        found = {"ldawa_cosine": float(whole.mean())}
        return Update(w=cohort.towards(mean), lambda_=shares(whole).to(cohort.p), metrics=found)


def shares(cosine: Tensor) -> Tensor:
    """The cosines as weights on the simplex [m]; equal ones where none is above zero."""
    weight = cosine.clamp(min=0.0)
    return torch.where(weight.sum() > 0, weight / weight.sum().clamp(min=1e-300), 1 / len(weight))
