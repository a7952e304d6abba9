"""The `bn` rules, which determine the server's running statistics of batch norm."""

import torch
from torch import Tensor

from fedbench.methods import Cohort, Server, Update

BATCH = 128


def aggregate_statistics(cohort: Cohort, update: Update, server: Server) -> Tensor:
    """Compute the server's running statistics [Q] after a round.

    If the method trained the model on the server, its statistics are taken. Otherwise, the rules `average` and `local`
    give lambda @ B, which gamma does not scale, and `proxy` estimates them in one pass over the proxy set. In the next
    round, clients start from the server's statistics under `average`, and from their own under `local` and `proxy`.
    """
    if update.buffers is not None:
        return update.buffers
    if not cohort.B.shape[1]:
        return cohort.B.new_empty(0)
    if cohort.bn == "proxy":
        return proxy_statistics(server, update.w)
    assert update.lambda_ is not None, "an update without weights has its own statistics"
    return update.lambda_ @ cohort.B


@torch.no_grad()
def proxy_statistics(server: Server, w: Tensor) -> Tensor:
    """Estimate the running statistics [Q] of model w [P] as the mean over the batches of the proxy set."""
    model, proxy = server.model, server.proxy
    model.load(w, model.buffers)
    model.train()
    for step, index in enumerate(proxy.batches(server.rng("bn"), BATCH), start=1):
        for layer in model.momenta:
            layer.momentum = 1 / step  # gives the cumulative mean of the batches so far
        model(proxy.x[index])
    model.train()  # restores the momentum of the layers
    return model.buffers.clone()
