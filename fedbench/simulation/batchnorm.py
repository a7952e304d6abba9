"""What becomes of batch norm's running statistics: the `bn` rules."""

import torch
from torch import Tensor

from fedbench.methods import Cohort, Server, Update

BATCH = 128


def aggregate_statistics(cohort: Cohort, update: Update, server: Server) -> Tensor:
    """The server's running statistics [Q] after a round.

    What the method itself left behind, if it trained the model on the server; else, average and local: lambda @ B
    (gamma never scales them), proxy: one pass over the proxy set. Under local and proxy each client goes on with its
    own, under average with the server's.
    """
    if update.buffers is not None:
        return update.buffers
    if not cohort.B.shape[1]:
        return cohort.B.new_empty(0)
    if cohort.bn == "proxy":
        return proxy_statistics(server, update.w)
    assert update.lambda_ is not None, "an update without weights brings its own statistics"
    return update.lambda_ @ cohort.B


@torch.no_grad()
def proxy_statistics(server: Server, w: Tensor) -> Tensor:
    """Running statistics [Q] of model w [P]: the mean over the batches of one train-mode pass over the proxy set."""
    model, proxy = server.model, server.proxy
    model.load(w, model.buffers)
    model.train()
    for step, index in enumerate(proxy.batches(server.rng("bn"), BATCH), start=1):
        for layer in model.momenta:
            layer.momentum = 1 / step  # the first batch replaces, then a cumulative mean
        model(proxy.x[index])
    model.train()  # their own momentum again
    return model.buffers.clone()
