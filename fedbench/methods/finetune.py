"""Training the aggregated model on the server: shared by FedDF, FedBE and Server-FT."""

from collections.abc import Callable, Iterable
from itertools import chain, islice

import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.base.fields import Count, Positive, Whole
from fedbench.methods.base import Cohort, MethodSettings, Server, Update, size_weighted

BETAS = (0.5, 0.999)  # of every Adam on the server; each is fresh every round

TEACHER_BATCH = 500

Teacher = tuple[Tensor, Tensor]  # parameters [P], running statistics [Q]
BatchLoss = Callable[[Tensor, Tensor], Tensor]


class FinetuneSettings(MethodSettings):
    """Adam over the proxy set."""

    epochs: Whole
    """server epochs over the proxy set"""
    steps: Whole | None = None
    """at most so many server steps in all; null for no cap"""
    lr: Positive = 1e-3
    """learning rate of the server's Adam"""
    batch_size: Count = 128
    """proxy images in a batch"""

    @property
    def trains(self) -> bool:
        """Whether there is anything to do on the server."""
        return self.epochs > 0 and self.steps != 0


def finetune(cohort: Cohort, server: Server, settings: FinetuneSettings, loss: BatchLoss) -> Update:
    """FedAvg, then Adam on `loss(logits, index)` over the proxy set, in train mode.

    The running statistics that the passes leave behind are the new ones; with no epochs this is FedAvg.
    """
    if not settings.trains:
        return size_weighted(cohort)
    model, proxy = server.model, server.proxy
    model.load(cohort.combine(cohort.p), cohort.buffers)
    model.train()
    flat = torch.nn.Parameter(model.w)  # shares the model's memory
    flat.grad = model.grad
    adam, rng = torch.optim.Adam([flat], lr=settings.lr, betas=BETAS), server.rng("finetune")
    batches = chain.from_iterable(proxy.batches(rng, settings.batch_size) for _ in range(settings.epochs))
    for index in islice(batches, settings.steps):
        model.grad.zero_()
        loss(model(proxy.x[index]), index).backward()
        adam.step()
    return Update(w=model.w.clone(), lambda_=cohort.p, buffers=model.buffers.clone())


def distil(cohort: Cohort, server: Server, settings: FinetuneSettings, teachers: Iterable[Teacher]) -> Update:
    """Distil the mean of the teachers' logits into the FedAvg model: KL divergence, no temperature.

    Neither the proxy set nor the teachers change while the student learns: their logits are computed once.
    """
    if not settings.trains:
        return size_weighted(cohort)
    target = torch.stack([teacher_logits(server, *teacher) for teacher in teachers]).mean(0).softmax(1)

    def divergence(student: Tensor, index: Tensor) -> Tensor:
        return F.kl_div(student.log_softmax(1), target[index], reduction="batchmean")

    return finetune(cohort, server, settings, divergence)


@torch.no_grad()
def teacher_logits(server: Server, w: Tensor, buffers: Tensor) -> Tensor:
    """Logits [N, classes] of one teacher on the whole proxy set, in eval mode."""
    server.model.load(w, buffers)
    server.model.train(False)
    return torch.cat([server.model(part) for part in torch.split(server.proxy.x, TEACHER_BATCH)])
