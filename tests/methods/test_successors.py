"""FedLWS, FedAWA, FedHAW, FedDisco, FedAdp, L-DAWA and q-FedAvg against their formulas, computed plainly in float64."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from fedbench.methods.fedadp import FedAdp, FedAdpSettings
from fedbench.methods.fedavg import FedAvgSettings
from fedbench.methods.fedawa import FedAWA, FedAWASettings, Objective
from fedbench.methods.feddisco import FedDisco, FedDiscoSettings
from fedbench.methods.fedhaw import FedHAW, FedHAWSettings
from fedbench.methods.fedlws import FedLWS, FedLWSSettings
from fedbench.methods.fedprox import FedProxSettings
from fedbench.methods.l_dawa import LDawa, LDawaSettings
from fedbench.methods.qfedavg import QFedAvg, QFedAvgSettings
from fedbench.models import LayerGroups
from tests.methods.helpers import tiny_cohort, tiny_server

BOUNDS = {"module": [0, 25, 43], "tensor": [0, 20, 25, 40, 43]}  # of Linear(4, 5), Tanh, Linear(5, 3)


@pytest.mark.parametrize("groups", BOUNDS)
@pytest.mark.parametrize("max_tau", [0.02, None])
def test_fedlws_shrinks_each_layer_by_its_own_gamma(groups: LayerGroups, max_tau: float | None) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    settings = FedLWSSettings(beta=0.05, min_tau=0.0, max_tau=max_tau, groups=groups)
    update = FedLWS(settings).aggregate(cohort, {}, server)
    W, w, p = cohort.W.numpy(), cohort.w.numpy(), cohort.p.numpy()
    mean, gammas = p @ W, []
    for start, stop in pairwise(BOUNDS[groups]):
        d = W[:, start:stop] - w[start:stop]
        tau = 0.05 * np.mean([np.linalg.norm(row - d.mean(0)) for row in d])
        tau = tau if max_tau is None else min(tau, max_tau)
        size, moved = np.linalg.norm(w[start:stop]), np.linalg.norm(mean[start:stop] - w[start:stop])
        gammas.append(size / (size + tau * moved))
        assert np.allclose(update.w.numpy()[start:stop], gammas[-1] * mean[start:stop], atol=1e-13)
    assert update.metrics["lws_gamma"] == pytest.approx(np.mean(gammas), abs=1e-12)
    assert update.metrics["lws_gamma_least"] == pytest.approx(min(gammas), abs=1e-12)


def test_fedlws_without_tau_is_the_method_inside_bit_for_bit() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    update = FedLWS(FedLWSSettings(beta=0.0, min_tau=0.0)).aggregate(cohort, {}, server)
    assert torch.equal(update.w, cohort.p @ cohort.W)


def test_fedlws_leaves_a_layer_that_was_zero() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    w = cohort.w.clone()
    w[20:25] = 0
    cohort = replace(cohort, w=w)
    update = FedLWS(FedLWSSettings(min_tau=0.1, groups="tensor")).aggregate(cohort, {}, server)
    mean = cohort.p @ cohort.W
    assert torch.equal(update.w[20:25], mean[20:25])
    assert not torch.allclose(update.w[:20], mean[:20])


def test_fedlws_wraps_any_method_with_its_client_side_state_needs_and_hash(tiny: Any) -> None:
    inside = {"method__inner__name": "fedprox", "method__inner__mu": 0.5}
    config = tiny(method__name="fedlws", **inside)
    assert isinstance(config.method.inner, FedProxSettings)
    method = FedLWS(config.method)
    correction = method.correction({}, 0, torch.zeros(3))
    assert correction is not None
    assert correction.mu == 0.5
    assert tiny(method__name="fedlws").hash == tiny(method__name="fedlws", method__inner__name="fedavg").hash
    assert config.hash != tiny(method__name="fedlws").hash
    learned = tiny(method__name="fedlws", method__inner__name="fedlaw", model="resnet8")
    assert (learned.method.proxy_use, learned.bn) == ("labelled", "proxy")
    assert learned.method.inner.lr == tiny(method__name="fedlaw").method.lr
    assert tiny(method__name="fedlws", method__inner__name="feddisco").method.reports == ("class_counts",)
    assert tiny(method__name="fedlws").method.reports == ()
    averaged = FedLWS(FedLWSSettings(inner=tiny(method__name="fedexp").method))
    assert averaged.aggregate(tiny_cohort(tiny_server()), {}, tiny_server()).average
    scaffold = FedLWS(FedLWSSettings(inner=tiny(method__name="scaffold").method))
    assert set(scaffold.start(3, torch.zeros(2))) == {"c_clients", "c"}


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"method__inner__name": "fedpros"}, "method.inner.name: unknown method 'fedpros'; did you mean 'fedprox'"),
        ({"method__inner__gamma": 1}, "method.inner.gamma"),
        ({"method__inner": 3}, "method.inner"),
        ({"method__inner__name": "krum", "method__inner__f": 0.4}, "method.inner.f = 0.4: .*method.inner.name=krum"),
        ({"method__min_tau": 0.3}, "method.max_tau = 0.2: must be at least method.min_tau, 0.3"),
    ],
)
def test_what_fedlws_cannot_wrap_is_one_line(tiny: Any, settings: dict[str, Any], line: str) -> None:
    with pytest.raises(Exception, match=line) as caught:
        tiny(method__name="fedlws", **settings)
    assert type(caught.value).__name__ == "ConfigError"
    assert "\n" not in str(caught.value)


def plain_objective(kind: str, lambda_: torch.Tensor, w: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
    d = W - w
    mixture = lambda_ @ d
    apart = torch.stack([(row - mixture).norm() for row in d])
    if kind == "paper":
        return lambda_ @ apart + 1 - F.cosine_similarity(lambda_ @ W, w, dim=0)
    return lambda_ @ apart + lambda_ @ (1 - F.cosine_similarity(W, w[None], dim=1))


@given(kind=st.sampled_from(["paper", "code"]), m=st.integers(2, 7), seed=st.integers(0, 300))
def test_fedawas_objective_and_gradient_are_those_over_the_models(
    kind: Literal["paper", "code"], m: int, seed: int
) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server, m, seed)
    objective = Objective(cohort, kind)
    x = torch.randn(m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ours, plain = x.clone().requires_grad_(), x.clone().requires_grad_()
    value = objective(objective.weights(ours))
    logits = cohort.p.log() if kind == "paper" else cohort.p
    wanted = plain_objective(kind, torch.softmax(logits + plain, 0), cohort.w, cohort.W)
    assert float(value.detach()) == pytest.approx(float(wanted.detach()), abs=1e-10)
    value.backward()
    wanted.backward()
    assert ours.grad is not None
    assert plain.grad is not None
    assert torch.allclose(ours.grad, plain.grad, atol=1e-9, rtol=0)


def test_fedawa_learns_over_rounds_and_for_each_client() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server, m=3, num_clients=5, clients=(0, 2, 4))
    method = FedAWA(FedAWASettings(lr=0.05))
    state, values = method.start(5, cohort.w), []
    for _ in range(40):
        update = method.aggregate(cohort, state, server)
        assert update.lambda_ is not None
        values.append(float(Objective(cohort, "paper")(update.lambda_)))
        state = update.state
    assert values[-1] < 0.9 * values[0]
    assert state["x"][[1, 3]].tolist() == [0, 0]
    assert update.lambda_ is not None
    assert torch.allclose(update.w, update.lambda_ @ cohort.W, atol=1e-13)


def test_the_released_fedawa_uses_what_the_last_round_learned() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    method = FedAWA(FedAWASettings(objective="code", lr=0.1))
    first = method.aggregate(cohort, method.start(4, cohort.w), server)
    assert first.lambda_ is not None
    assert torch.allclose(first.lambda_, cohort.p.softmax(0), atol=1e-14)
    second = method.aggregate(cohort, first.state, server)
    assert second.lambda_ is not None
    assert torch.allclose(second.lambda_, (cohort.p + first.state["x"]).softmax(0), atol=1e-14)


@pytest.mark.parametrize("kind", ["paper", "code"])
def test_fedawa_stands_clients_that_did_not_move_and_a_single_one(kind: Literal["paper", "code"]) -> None:
    server = tiny_server()
    method = FedAWA(FedAWASettings(objective=kind, epochs=3))
    cohort = tiny_cohort(server)
    for W in (cohort.w.expand_as(cohort.W).clone(), cohort.W[:1].expand_as(cohort.W).clone()):
        update = method.aggregate(replace(cohort, W=W), method.start(4, cohort.w), server)
        assert torch.isfinite(update.w).all()
        assert torch.isfinite(update.state["x"]).all()
    single = tiny_cohort(server, m=1)
    assert torch.allclose(method.aggregate(single, method.start(1, single.w), server).w, single.W[0], atol=1e-14)


def test_fedhaw_is_its_equations_over_three_rounds() -> None:
    server, n = tiny_server(), 4
    method = FedHAW(FedHAWSettings(lr_gamma=1e-3, lr_lambda=0.05))
    w = server.model.w.clone()
    state, g, x, sent = method.start(n, w), 0.0, np.zeros(n), np.zeros((n, len(w)))
    for t in (1, 2, 3):
        cohort = tiny_cohort(server, n, seed=t, w=w, round=t)
        update = method.aggregate(cohort, state, server)
        p, W, before, lr = cohort.p.numpy(), cohort.W.numpy(), w.numpy(), cohort.work.lr
        if t > 1:
            s = p * np.exp(x) / (p * np.exp(x)).sum()
            v = before - s @ W
            g -= 1e-3 * math.exp(g) / lr * float(v @ before)
            x = x - 0.05 * math.exp(2 * g) * s * (1 - s) / lr * (sent @ v)
        s = p * np.exp(x) / (p * np.exp(x)).sum()
        assert np.allclose(update.w.numpy(), math.exp(g) * (s @ W), atol=1e-12)
        assert update.gamma == pytest.approx(math.exp(g), abs=1e-13)
        w, state, sent = update.w, update.state, W
    assert update.gamma != 1
    assert update.lambda_ is not None
    assert not np.allclose(update.lambda_.numpy(), p)


def test_a_client_that_fedhaw_has_not_seen_keeps_its_logit() -> None:
    server = tiny_server()
    method = FedHAW(FedHAWSettings(lr_gamma=0.0, lr_lambda=0.1))
    first = tiny_cohort(server, m=2, num_clients=3, clients=(0, 1))
    state = method.aggregate(first, method.start(3, first.w), server).state
    second = tiny_cohort(server, m=2, seed=1, num_clients=3, clients=(1, 2), round=2)
    x = method.aggregate(second, state, server).state["x"].tolist()
    assert x[0] == 0
    assert x[1] != 0
    assert x[2] == 0


COUNTS = torch.tensor([[10, 10, 10], [30, 0, 0], [5, 5, 0], [1, 2, 7]])


@pytest.mark.parametrize("kind", ["kl", "l1", "l2", "cosine"])
def test_feddisco_takes_discrepancies_off_data_sizes(kind: Literal["kl", "l1", "l2", "cosine"]) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server, reported={"class_counts": COUNTS})
    update = FedDisco(FedDiscoSettings(a=0.3, b=0.05, discrepancy=kind)).aggregate(cohort, {}, server)
    q = COUNTS.numpy() / COUNTS.numpy().sum(1, keepdims=True)
    u = np.full(3, 1 / 3)
    d = np.array(
        [
            {
                "kl": sum(share * math.log(share * 3) for share in row if share),
                "l1": np.abs(row - u).sum(),
                "l2": np.linalg.norm(row - u),
                "cosine": 1 - row @ u / (np.linalg.norm(row) * np.linalg.norm(u)),
            }[kind]
            for row in q
        ]
    )
    weight = np.maximum(cohort.p.numpy() - 0.3 * d / d.sum() + 0.05, 0)
    assert update.lambda_ is not None
    assert np.allclose(update.lambda_.numpy(), weight / weight.sum(), atol=1e-13)
    assert torch.allclose(update.w, update.lambda_ @ cohort.W, atol=1e-13)


def test_feddisco_falls_back_to_data_sizes_where_no_weight_is_left() -> None:
    server = tiny_server()
    same = torch.full((4, 3), 5)
    for counts, a in ((same, 0.5), (COUNTS[1:2].expand(4, 3), 100.0)):
        cohort = tiny_cohort(server, reported={"class_counts": counts}, p=torch.full((4,), 0.25, dtype=torch.float64))
        update = FedDisco(FedDiscoSettings(a=a, b=0.0)).aggregate(cohort, {}, server)
        assert update.lambda_ is not None
        assert torch.allclose(update.lambda_, cohort.p, atol=1e-14)


def test_fedadp_weighs_by_the_mean_angle_over_a_clients_rounds() -> None:
    server = tiny_server()
    method = FedAdp(FedAdpSettings(alpha=5.0))
    angles: list[list[float]] = [[], [], [], []]
    state = method.start(4, server.model.w)
    for t, clients in enumerate([(0, 1, 2, 3), (0, 2, 3), (1, 2, 3)], start=1):
        cohort = tiny_cohort(server, m=len(clients), seed=t, clients=clients, num_clients=4, round=t)
        update = method.aggregate(cohort, state, server)
        d = (cohort.W - cohort.w).numpy()
        mean = cohort.p.numpy() @ d
        for row, client in enumerate(clients):
            cosine = d[row] @ mean / (np.linalg.norm(d[row]) * np.linalg.norm(mean))
            angles[client].append(math.acos(cosine))
        theta = [np.mean(angles[client]) for client in clients]
        weight = cohort.p.numpy() * [math.exp(5 * (1 - math.exp(-math.exp(-5 * (angle - 1))))) for angle in theta]
        assert update.lambda_ is not None
        assert np.allclose(update.lambda_.numpy(), weight / weight.sum(), atol=1e-11)
        state = update.state


@pytest.mark.parametrize("groups", BOUNDS)
def test_l_dawa_weighs_every_layer_of_a_client_by_its_cosine(groups: LayerGroups) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    update = LDawa(LDawaSettings(groups=groups)).aggregate(cohort, {}, server)
    for start, stop in pairwise(BOUNDS[groups]):
        w, W = cohort.w[start:stop], cohort.W[:, start:stop]
        cosines = [float(F.cosine_similarity(row, w, dim=0)) for row in W]
        wanted = sum(cosine * row for cosine, row in zip(cosines, W, strict=True)) / len(W)
        assert torch.allclose(update.w[start:stop], wanted, atol=1e-12)
    assert float(update.w.norm()) < float(cohort.W.mean(0).norm())  # it shrinks


def test_l_dawa_records_how_far_it_heeds_each_client() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    W = cohort.W.clone()
    W[0] = -cohort.w
    update = LDawa(LDawaSettings()).aggregate(replace(cohort, W=W), {}, server)
    assert update.lambda_ is not None
    assert float(update.lambda_[0]) == 0
    assert float(update.lambda_.sum()) == pytest.approx(1, abs=1e-12)
    against = replace(cohort, W=-cohort.w.expand_as(W))
    assert LDawa(LDawaSettings()).aggregate(against, {}, server).lambda_.tolist() == [0.25] * 4  # type: ignore[union-attr]


def test_l_dawa_of_models_along_the_global_one_is_their_uniform_mean() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    scales = torch.tensor([0.5, 1.0, 1.5, 3.0], dtype=torch.float64)
    cohort = replace(cohort, W=scales[:, None] * cohort.w)
    update = LDawa(LDawaSettings()).aggregate(cohort, {}, server)
    assert torch.allclose(update.w, cohort.W.mean(0), atol=1e-12)


@pytest.mark.parametrize(("momentum", "lipschitz"), [(0.0, None), (0.9, None), (0.9, 3.0)])
@pytest.mark.parametrize("q", [0.0, 0.1, 1.0, 3.0])
def test_qfedavg_is_its_equations_with_the_curvature_that_momentum_leaves(
    q: float, momentum: float, lipschitz: float | None
) -> None:
    server = tiny_server()
    losses = torch.tensor([0.2, 1.0, 2.5, 0.01], dtype=torch.float64)
    cohort = tiny_cohort(server, reported={"loss": losses})
    cohort = replace(cohort, work=replace(cohort.work, momentum=momentum))
    update = QFedAvg(QFedAvgSettings(q=q, lipschitz=lipschitz)).aggregate(cohort, {}, server)
    L, F_, d = lipschitz or (1 - momentum) / cohort.work.lr, losses.numpy(), (cohort.w - cohort.W).numpy()
    delta = [F_[i] ** q * L * d[i] for i in range(4)]
    h = [q * F_[i] ** (q - 1) * np.sum((L * d[i]) ** 2) + L * F_[i] ** q for i in range(4)]
    assert np.allclose(update.w.numpy(), cohort.w.numpy() - sum(delta) / sum(h), atol=1e-12)
    if q == 0:
        assert torch.allclose(update.w, cohort.W.mean(0), atol=1e-13)


def test_wrappers_default_inside_is_fedavg() -> None:
    assert FedLWSSettings().inner == FedAvgSettings()
