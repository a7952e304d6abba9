"""FedDF: FedAvg, then ensemble distillation on the unlabelled proxy set (Lin et al., 2020)."""

from typing import Literal

from fedbench.base.fields import Whole
from fedbench.methods.base import Cohort, Method, ProxyUse, Server, State, Update, register_method
from fedbench.methods.finetune import FinetuneSettings, Teacher, distil


class FedDFSettings(FinetuneSettings):
    """Distillation on the server."""

    name: Literal["feddf"] = "feddf"
    epochs: Whole = 100
    """server epochs over the proxy set"""

    @property
    def proxy_use(self) -> ProxyUse:
        """Images only."""
        return "unlabelled"


@register_method()
class FedDF(Method[FedDFSettings]):
    """The clients' mean logits teach the FedAvg model."""

    Settings = FedDFSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by data sizes, then distil."""
        teachers = [Teacher(w, buffers) for w, buffers in zip(cohort.W, cohort.B, strict=True)]
        return distil(cohort, state, server, self.settings, teachers)
