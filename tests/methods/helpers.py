"""A small server and cohort for testing rules without a run."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedbench.methods import Cohort, LocalWork, ProxyData, Server
from fedbench.models import FlatModel, Layers, TensorSpan

CPU = torch.device("cpu")
BOUNDS = {"centralised", "local_only"}  # no rules of aggregation: see test_bounds.py
IGNORE_SIZES = {  # rules that take no notice of how many samples a client has; see test_invariance.py
    *("feddyn", "qfedavg", "l_dawa", "fltrust", "greedy_soup", "fedvg"),
    *("median", "trimmed_mean", "krum", "bulyan", "centered_clipping"),
}


def tiny_model(batch_norm: bool = False) -> FlatModel:
    torch.manual_seed(0)
    norm: list[nn.Module] = [nn.BatchNorm1d(5)] if batch_norm else []
    return FlatModel(nn.Sequential(nn.Linear(4, 5), *norm, nn.Tanh(), nn.Linear(5, 3)), CPU, torch.float64)


def tiny_server(n: int = 12, batch_norm: bool = False, seed: int = 0) -> Server:
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=rng, dtype=torch.float64)
    y = torch.randint(0, 3, (n,), generator=rng)

    def batches(draw: np.random.Generator, size: int) -> list[torch.Tensor]:
        return list(torch.split(torch.from_numpy(draw.permutation(n)), size))

    return Server(tiny_model(batch_norm), ProxyData(x, y, batches), lambda purpose: np.random.default_rng(len(purpose)))


def tiny_cohort(server: Server, m: int = 4, seed: int = 0, **changes: Any) -> Cohort:
    rng = torch.Generator().manual_seed(seed)
    w, buffers = server.model.w.clone(), server.model.buffers.clone()
    W = w + 0.3 * torch.randn(m, len(w), generator=rng, dtype=torch.float64)
    B = buffers + 0.1 * torch.rand(m, len(buffers), generator=rng, dtype=torch.float64)
    p = torch.rand(m, generator=rng, dtype=torch.float64) + 0.1
    p = p / p.sum()
    fields = dict(p=p, w=w, W=W, B=B, buffers=p @ B, layers=server.model.layers)
    return make_cohort(**{**fields, **changes})


def make_cohort(*, p: Tensor, w: Tensor, W: Tensor, **changes: Any) -> Cohort:
    """A cohort of which only the models matter; the rest is plain, or as given."""
    m, P = W.shape
    work = LocalWork(torch.full((m,), 10.0, dtype=torch.float64), 1, 32, 0.1, 0.0, False, 0.0, 0.1)
    whole = (TensorSpan("all", 0, P, torch.Size([P])),)
    defaults = {"round": 1, "clients": tuple(range(m)), "B": W[:, :0], "buffers": w[:0], "bn": "average"}
    defaults |= {"global_lr": 1.0, "num_clients": m, "work": work, "layers": Layers(whole, whole)}
    defaults["sizes"] = (1000 * p).round().to(torch.int64)
    return Cohort(p=p, w=w, W=W, **{**defaults, **changes})
