"""Greedy soup: average the clients that the proxy set says help (Wortsman et al., Model Soups, ICML 2022)."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.methods.base import Cohort, Method, MethodSettings, ProxyUse, Server, State, Update, register_method
from fedbench.methods.finetune import TEACHER_BATCH


class GreedySoupSettings(MethodSettings):
    """The greedy soup has no settings."""

    name: Literal["greedy_soup"] = "greedy_soup"

    @property
    def proxy_use(self) -> ProxyUse:
        """Images and labels."""
        return "labelled"


@register_method()
class GreedySoup(Method[GreedySoupSettings]):
    """Clients from the best to the worst on the proxy set; each is kept if the uniform mean with it is as accurate.

    Among equally accurate clients, which are common on few images, a lower loss comes first. Models are judged with
    their running statistics, averaged as the models are, or under bn=proxy with those of the proxy batch.
    """

    Settings = GreedySoupSettings
    metrics = {"soup_size": "clients in the soup"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Judge all clients, then add them one by one."""
        order = sorted(range(len(cohort.W)), key=lambda row: judged(cohort, server, [row]), reverse=True)
        kept, best = order[:1], judged(cohort, server, order[:1])
        for row in order[1:]:
            score = judged(cohort, server, [*kept, row])
            if score[0] >= best[0]:
                kept, best = [*kept, row], score
        lambda_ = torch.zeros_like(cohort.p)
        lambda_[kept] = 1 / len(kept)
        return Update(w=cohort.combine(lambda_), lambda_=lambda_, metrics={"soup_size": len(kept)})


@torch.no_grad()
def judged(cohort: Cohort, server: Server, rows: list[int]) -> tuple[float, float]:
    """(accuracy, -loss) on the proxy set of the uniform mean of some clients."""
    model, proxy = server.model, server.proxy
    model.load(cohort.W[rows].mean(0), cohort.buffers if cohort.bn == "proxy" else cohort.B[rows].mean(0))
    model.train(cohort.bn == "proxy")
    logits: Tensor = torch.cat([model(part) for part in torch.split(proxy.x, TEACHER_BATCH)])
    right = (logits.argmax(1) == proxy.y).double().mean()
    return tuple(torch.stack([right, -F.cross_entropy(logits.double(), proxy.y)]).tolist())
