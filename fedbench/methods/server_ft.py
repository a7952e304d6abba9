"""Server-FT: FedAvg, then fine-tuning on the labelled proxy set."""

from typing import Literal

import torch.nn.functional as F

from fedbench.base.fields import Whole
from fedbench.methods.base import Cohort, Method, ProxyUse, Server, State, Update, register_method
from fedbench.methods.finetune import FinetuneSettings, finetune


class ServerFTSettings(FinetuneSettings):
    """Few epochs: many of them overfit the small proxy set."""

    name: Literal["server_ft"] = "server_ft"
    epochs: Whole = 2
    """server epochs over the proxy set"""

    @property
    def proxy_use(self) -> ProxyUse:
        """Images and labels."""
        return "labelled"


@register_method()
class ServerFT(Method[ServerFTSettings]):
    """FedAvg, then cross-entropy on the proxy set."""

    Settings = ServerFTSettings

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Average by data sizes, then fine-tune."""
        y = server.proxy.y
        return finetune(cohort, state, server, self.settings, lambda logits, i: F.cross_entropy(logits, y[i]))
