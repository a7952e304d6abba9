"""Training the aggregated model on the server: shared by FedDF, FedBE and Server-FT."""

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.base.fields import Count, Positive, UnhashedDefault, Whole
from fedbench.methods.base import Cohort, MethodSettings, Server, State, Update, size_weighted
from fedbench.methods.optimisers import Adam, Optimiser, Sgd

TEACHER_BATCH = 500

BatchLoss = Callable[[Tensor, Tensor], Tensor]


class Teacher(NamedTuple):
    """A model whose logits are learned: parameters [P], running statistics [Q], and whether batch norm ignores them.

    In train mode batch norm goes by the statistics of each batch.
    """

    w: Tensor
    buffers: Tensor
    train: bool = False


class FinetuneSettings(MethodSettings):
    """An optimiser over the proxy set."""

    epochs: Whole
    """server epochs over the proxy set"""
    steps: Whole | None = None
    """at most so many server steps in all; null for no cap"""
    optimizer: Annotated[Literal["adam", "sgd"], UnhashedDefault()] = "adam"
    """the server's; SGD has the clients' momentum and weight decay"""
    optimizer_state: Annotated[Literal["fresh", "keep"], UnhashedDefault()] = "fresh"
    """whether the optimiser starts anew in every round, or lives on"""
    lr: Positive | None = 1e-3
    """learning rate of the server's optimiser; null for the clients' of the first round"""
    batch_size: Count = 128
    """proxy images in a batch"""

    @property
    def trains(self) -> bool:
        """Return whether the server trains at all."""
        return self.epochs > 0 and self.steps != 0

    def rate(self, cohort: Cohort) -> float:
        """Return the server's learning rate."""
        return cohort.work.first_lr if self.lr is None else self.lr

    def optimiser(self, flat: torch.nn.Parameter, cohort: Cohort, state: State) -> Optimiser:
        """The optimiser of a round, with what it kept from the one before."""
        work = cohort.work
        if self.optimizer == "adam":
            return Adam([flat], state)
        return Sgd(flat, self.rate(cohort), work.momentum, work.weight_decay, state)


def finetune(cohort: Cohort, state: State, server: Server, settings: FinetuneSettings, loss: BatchLoss) -> Update:
    """FedAvg, then the optimiser on `loss(logits, index)` over the proxy set, in train mode.

    The running statistics that the passes leave behind are the new ones; with no epochs this is FedAvg.
    """
    if not settings.trains:
        return size_weighted(cohort)
    model, proxy = server.model, server.proxy
    model.load(cohort.combine(cohort.p), cohort.buffers)
    model.train()
    flat = torch.nn.Parameter(model.w)  # shares the model's memory
    flat.grad = model.grad
    optimiser, rng = settings.optimiser(flat, cohort, state), server.rng("finetune")
    drawn = chain.from_iterable(proxy.batches(rng, settings.batch_size) for _ in range(settings.epochs))
    batches = list(islice(drawn, settings.steps))

    def step(index: Tensor, numbers: Tensor) -> None:
        model.backward(loss(model(proxy.x[index]), index))
        optimiser.step(numbers)

    repeated = server.repeated(step)
    for index, numbers in zip(batches, optimiser.ahead([settings.rate(cohort)] * len(batches)), strict=True):
        repeated(index, numbers)
    kept = optimiser.kept() if settings.optimizer_state == "keep" else {}
    return Update(w=model.w.clone(), lambda_=cohort.p, buffers=model.buffers.clone(), state=kept)


def distil(
    cohort: Cohort, state: State, server: Server, settings: FinetuneSettings, teachers: Iterable[Teacher]
) -> Update:
    """Distil the mean of the teachers' logits into the FedAvg model: KL divergence, no temperature.

    Neither the proxy set nor the teachers change while the student learns: their logits are computed once.
    """
    if not settings.trains:
        return size_weighted(cohort)
    logits = [teacher_logits(server, teacher, settings.batch_size) for teacher in teachers]
    target = torch.stack(logits).mean(0).softmax(1)

    def divergence(student: Tensor, index: Tensor) -> Tensor:
        return F.kl_div(student.log_softmax(1), target[index], reduction="batchmean")

    return finetune(cohort, state, server, settings, divergence)


@torch.no_grad()
def teacher_logits(server: Server, teacher: Teacher, batch_size: int) -> Tensor:
    """Logits [N, classes] of one teacher on the whole proxy set; in train mode by batches of the student's size."""
    server.model.load(teacher.w, teacher.buffers)
    server.model.train(teacher.train)
    parts = torch.split(server.proxy.x, batch_size if teacher.train else TEACHER_BATCH)
    return torch.cat([server.model(part) for part in parts])
