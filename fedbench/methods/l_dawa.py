"""L-DAWA: layers of clients weighed by their angle to the global model's (Rehman et al., ICCV 2023)."""

from typing import Literal

import torch

from fedbench.methods.base import Cohort, Method, MethodSettings, Server, State, Update, register_method
from fedbench.methods.geometry import cosines, norm
from fedbench.models import LayerGroups


class LDawaSettings(MethodSettings):
    """What a layer is."""

    name: Literal["l_dawa"] = "l_dawa"
    groups: LayerGroups = "module"
    """what a layer is: a module with all its parameters, or every tensor by itself"""


@register_method()
class LDawa(Method[LDawaSettings]):
    """w_l <- (1/m) sum_i cos(w_i,l, w_l) w_i,l for each layer l: no data sizes, and weights that sum to less than 1.

    A layer of the global model that is zero has no angle: its clients count in full.
    """

    Settings = LDawaSettings
    metrics = {"ldawa_cosine": "cosine of clients' layers with the global ones, mean"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average layer by layer."""
        mean, seen = torch.empty_like(cohort.w), []
        for span in cohort.layers.by(self.settings.groups):
            w, W = cohort.w[span.at], cohort.W[:, span.at]
            length = torch.linalg.vector_norm(W, dim=1, dtype=torch.float64)
            cosine = cosines((W @ w).to(torch.float64), length, norm(w)) if w.any() else torch.ones_like(length)
            mean[span.at] = (cosine / len(W)).to(W) @ W
            seen.append(cosine.mean())
        found = {"ldawa_cosine": float(torch.stack(seen).mean())}
        return Update(w=cohort.towards(mean), lambda_=cohort.uniform, metrics=found)
