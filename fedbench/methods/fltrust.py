"""FLTrust: the server trains on a root set of its own and trusts clients that move its way (Cao et al., NDSS 2021)."""

from itertools import chain, count, islice
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.base.fields import Count, Positive
from fedbench.methods.base import Cohort, Method, MethodSettings, ProxyUse, Server, State, Update, register_method
from fedbench.methods.geometry import cosines, lengths, norm, project


class FLTrustSettings(MethodSettings):
    """Training on the root set, which is the proxy set: the same images and labels that FedLAW learns from."""

    name: Literal["fltrust"] = "fltrust"
    steps: Count | None = None
    """the server's steps of SGD in a round; null for as many as a client of the cohort takes in the mean"""
    batch_size: Count | None = None
    """proxy images in a batch; null for the clients' batch size"""
    lr: Positive | None = None
    """the server's learning rate; null for the clients' in this round"""

    @property
    def proxy_use(self) -> ProxyUse:
        """Images and labels."""
        return "labelled"


@register_method()
class FLTrust(Method[FLTrustSettings]):
    """d_0: how the server's own training moves w_g. Trust t_i = max(0, cos(d_i, d_0)), d_i = w_i - w_g.

    w_g <- w_g + sum_i t_i (|d_0| / |d_i|) d_i / sum_i t_i: every update is scaled to the server's length. Where nobody
    is trusted the model stays, with the running statistics of the server's own training. lambda_i = t_i / sum_j t_j is
    recorded. Running statistics play no part in any angle.
    """

    Settings = FLTrustSettings
    metrics = {"fltrust_trust": "trust of FLTrust, mean over clients"}

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Train on the server, weigh clients by trust, scale them to the server's length."""
        root = self.train(cohort, server) - cohort.w
        own, length = norm(root), lengths(cohort)
        trust = cosines(project(cohort, root), length, own).clamp(min=0.0)
        found = {"fltrust_trust": float(trust.mean())}
        if not trust.any():
            own_statistics = None if cohort.bn == "proxy" else server.model.buffers.clone()
            return Update(w=cohort.w.clone(), lambda_=cohort.p, buffers=own_statistics, metrics=found)
        share = trust / trust.sum()
        scaled = torch.where(length > 0, share * own / length, 0.0).to(cohort.p)
        w = cohort.w + scaled @ cohort.W - scaled.sum() * cohort.w
        return Update(w=cohort.towards(w), lambda_=share.to(cohort.p), metrics=found)

    def train(self, cohort: Cohort, server: Server) -> Tensor:
        """The global model after SGD on the proxy set, momentum from rest [P]; with as many steps as a client takes.

        Its paper has the same number of local iterations for the server and the clients; the same number of epochs over
        a small proxy set would be far fewer, and its updates as much shorter.
        """
        s, work, model, proxy = self.settings, cohort.work, server.model, server.proxy
        model.load(cohort.w, cohort.buffers)
        model.train()
        flat = torch.nn.Parameter(model.w)  # shares the model's memory
        flat.grad = model.grad
        sgd = torch.optim.SGD([flat], lr=s.lr or work.lr, momentum=work.momentum, weight_decay=work.weight_decay)
        rng, size = server.rng("fltrust"), s.batch_size or work.batch_size

        def step(index: Tensor) -> None:
            model.backward(F.cross_entropy(model(proxy.x[index]), proxy.y[index]))
            sgd.step()

        repeated = server.repeated(step)
        steps = s.steps or max(1, round(float(work.steps.mean())))
        for index in islice(chain.from_iterable(proxy.batches(rng, size) for _ in count()), steps):
            repeated(index)
        return model.w.clone()
