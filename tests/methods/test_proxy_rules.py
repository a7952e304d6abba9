"""Greedy soup and FLTrust: rules that judge clients by the proxy set."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fedbench.methods import Cohort, LocalWork, Server
from fedbench.methods.fltrust import FLTrust, FLTrustSettings
from fedbench.methods.greedy_soup import GreedySoup, GreedySoupSettings, judged
from fedbench.simulation import Simulation
from tests.methods.helpers import tiny_cohort, tiny_server


def accuracy(server: Server, w: torch.Tensor, buffers: torch.Tensor) -> tuple[float, float]:
    server.model.load(w, buffers)
    server.model.train(False)
    with torch.no_grad():
        logits = server.model(server.proxy.x)
    right = (logits.argmax(1) == server.proxy.y).double().mean()
    return float(right), -float(F.cross_entropy(logits, server.proxy.y))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_greedy_soup_keeps_who_does_not_lower_its_accuracy(seed: int, batch_norm: bool) -> None:
    server = tiny_server(n=40, batch_norm=batch_norm, seed=seed)
    cohort = tiny_cohort(server, m=6, seed=seed)
    update = GreedySoup(GreedySoupSettings()).aggregate(cohort, {}, server)

    def score(rows: list[int]) -> tuple[float, float]:
        return accuracy(server, cohort.W[rows].mean(0), cohort.B[rows].mean(0))

    order = sorted(range(6), key=lambda row: score([row]), reverse=True)
    kept = [order[0]]
    for row in order[1:]:
        if score([*kept, row])[0] >= score(kept)[0]:
            kept.append(row)
    assert update.lambda_ is not None
    assert update.lambda_.nonzero().flatten().tolist() == sorted(kept)
    assert torch.allclose(update.w, cohort.W[kept].mean(0), atol=1e-13)
    assert update.metrics["soup_size"] == len(kept)


def test_a_soup_is_never_worse_on_the_proxy_set_than_its_best_client() -> None:
    for seed in range(8):
        server = tiny_server(n=40, seed=seed)
        cohort = tiny_cohort(server, m=5, seed=seed)
        update = GreedySoup(GreedySoupSettings()).aggregate(cohort, {}, server)
        best = max(judged(cohort, server, [row])[0] for row in range(5))
        assert accuracy(server, update.w, cohort.buffers)[0] >= best


def trained_plainly(cohort: Cohort, work: LocalWork, batch_norm: bool, steps: int) -> torch.Tensor:
    other = tiny_server(batch_norm=batch_norm)
    other.model.load(cohort.w, cohort.buffers)
    other.model.train()
    parameters = other.model.module.parameters()
    sgd = torch.optim.SGD(parameters, lr=work.lr, momentum=work.momentum, weight_decay=work.weight_decay)
    rng = other.rng("fltrust")
    drawn = [index for _ in range(steps) for index in other.proxy.batches(rng, work.batch_size)]
    for index in drawn[:steps]:
        sgd.zero_grad(set_to_none=False)
        F.cross_entropy(other.model(other.proxy.x[index]), other.proxy.y[index]).backward()
        sgd.step()
    return other.model.w.clone()


@pytest.mark.parametrize(("batch_norm", "steps"), [(False, None), (True, None), (False, 2)])
def test_fltrust_is_its_equations_with_a_server_that_takes_a_clients_steps(batch_norm: bool, steps: int | None) -> None:
    server = tiny_server(batch_norm=batch_norm)
    work = LocalWork(torch.tensor([2.0, 4.0, 6.0, 16.0], dtype=torch.float64), 1, 5, 0.1, 0.9, True, 1e-3, 0.1)
    cohort = tiny_cohort(server, work=work)
    root = trained_plainly(cohort, work, batch_norm, steps or 7) - cohort.w
    W = cohort.W.clone()
    W[2] = cohort.w - root + 0.1 * W[2]  # one that goes the other way
    cohort = replace(cohort, W=W)
    update = FLTrust(FLTrustSettings(steps=steps)).aggregate(cohort, {}, server)
    trust = [max(0.0, float(F.cosine_similarity(row - cohort.w, root, dim=0))) for row in cohort.W]
    assert trust[2] == 0 < sum(trust)
    wanted = cohort.w.clone()
    for value, row in zip(trust, cohort.W, strict=True):
        d = row - cohort.w
        wanted += value / sum(trust) * root.norm() / d.norm() * d
    assert torch.allclose(update.w, wanted, atol=1e-12)
    assert update.lambda_ is not None
    assert update.lambda_.tolist() == pytest.approx([value / sum(trust) for value in trust], abs=1e-12)


def test_where_nobody_is_trusted_the_model_stays() -> None:
    server = tiny_server()
    method = FLTrust(FLTrustSettings())
    cohort = tiny_cohort(server)
    root = method.train(cohort, server) - cohort.w
    against = replace(cohort, W=cohort.w - torch.arange(1.0, 5.0, dtype=torch.float64)[:, None] * root)
    update = method.aggregate(against, {}, server)
    assert torch.equal(update.w, cohort.w)
    assert update.metrics["fltrust_trust"] == 0


def test_an_update_far_too_long_moves_fltrust_no_further_than_its_own_training() -> None:
    server = tiny_server()
    method = FLTrust(FLTrustSettings())
    cohort = tiny_cohort(server)
    root = method.train(cohort, server) - cohort.w
    W = cohort.W.clone()
    W[0] = cohort.w + 1e6 * root
    update = method.aggregate(replace(cohort, W=W), {}, server)
    assert float((update.w - cohort.w).norm()) <= float(root.norm()) * (1 + 1e-9)


@pytest.mark.parametrize("method", ["greedy_soup", "fltrust"])
def test_a_run_of_them_sees_the_same_proxy_set_as_fedlaw(tiny: Any, method: str) -> None:
    theirs, fedlaw = Simulation(tiny(method__name=method)), Simulation(tiny(method__name="fedlaw"))
    assert theirs.proxy is not None
    assert fedlaw.proxy is not None
    assert torch.equal(theirs.proxy.x, fedlaw.proxy.x)
    assert theirs.config.method.proxy_use == "labelled"
