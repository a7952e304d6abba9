"""FedDyn against a quadratic problem whose optimum is known by hand."""

from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from fedbench.methods import METHODS, Correction, Method
from fedbench.methods.feddyn import FedDyn, FedDynSettings
from fedbench.simulation.local import correct
from tests.methods.helpers import make_cohort, tiny_server

N = 6
RNG = np.random.default_rng(3)
CURVATURE = torch.from_numpy(RNG.uniform(0.2, 3.0, (N, 4)))  # client i: L_i(w) = 0.5 sum_k c_ik (w_k - t_ik)^2
TARGET = torch.from_numpy(RNG.normal(size=(N, 4)))
OPTIMUM = (CURVATURE * TARGET).sum(0) / CURVATURE.sum(0)  # where the sum of all L_i is least


def local(client: int, w: Tensor, correction: Correction | None, steps: int = 60, lr: float = 0.3) -> Tensor:
    w = w.clone()
    for _ in range(steps):
        grad = CURVATURE[client] * (w - TARGET[client])
        if correction is not None:
            correct(grad, w, correction)
        w -= lr * grad
    return w


def optimise(method: Method, rounds: int, participants: int) -> Tensor:  # type: ignore[type-arg]
    w = torch.zeros(4, dtype=torch.float64)
    state, server = method.start(N, w), tiny_server()
    for t in range(1, rounds + 1):
        clients = tuple(sorted(RNG.permutation(N)[:participants].tolist()))
        W = torch.stack([local(client, w, method.correction(state, client, w)) for client in clients])
        p = torch.full((participants,), 1 / participants, dtype=torch.float64)
        cohort = make_cohort(p=p, w=w, W=W, round=t, clients=clients, num_clients=N)
        update = method.aggregate(cohort, state, server)
        w, state = update.w, update.state
    return w


@pytest.mark.parametrize("participants", [N, 3])
def test_it_reaches_the_optimum_that_fedavg_misses(participants: int) -> None:
    fedavg = METHODS.get("fedavg")
    biased = optimise(fedavg(fedavg.Settings()), 60, N)  # type: ignore[call-arg]
    assert float((biased - OPTIMUM).norm()) > 0.1
    found = optimise(FedDyn(FedDynSettings(a=0.5)), 200, participants)
    assert float((found - OPTIMUM).norm()) < 1e-3


def test_one_round_is_the_equations() -> None:
    a, server = 0.3, tiny_server()
    method = FedDyn(FedDynSettings(a=a))
    w = torch.from_numpy(RNG.normal(size=4))
    h_clients, h = torch.from_numpy(RNG.normal(size=(N, 4))), torch.from_numpy(RNG.normal(size=4))
    state = {"h_clients": h_clients.clone(), "h": h.clone()}
    W = torch.from_numpy(RNG.normal(size=(2, 4)))
    p = torch.tensor([0.9, 0.1], dtype=torch.float64)  # data sizes play no part
    update = method.aggregate(make_cohort(p=p, w=w, W=W, clients=(1, 4), num_clients=N), state, server)
    new_h = h - a / N * ((W[0] - w) + (W[1] - w))
    assert torch.allclose(update.state["h"], new_h, atol=1e-14)
    assert torch.allclose(update.w, (W[0] + W[1]) / 2 - new_h / a, atol=1e-13)
    assert torch.allclose(update.state["h_clients"][4], h_clients[4] - a * (W[1] - w), atol=1e-14)
    absent = [0, 2, 3, 5]
    assert torch.equal(update.state["h_clients"][absent], h_clients[absent])


def test_with_means_by_data_size_one_round_is_the_equations_of_fedlaws_authors() -> None:
    a, server = 0.3, tiny_server()
    method = FedDyn(FedDynSettings(a=a, mean="size"))
    w, h = torch.from_numpy(RNG.normal(size=4)), torch.from_numpy(RNG.normal(size=4))
    state = {"h_clients": torch.zeros(N, 4, dtype=torch.float64), "h": h.clone()}
    W = torch.from_numpy(RNG.normal(size=(2, 4)))
    p = torch.tensor([0.9, 0.1], dtype=torch.float64)
    update = method.aggregate(make_cohort(p=p, w=w, W=W, clients=(1, 4), num_clients=N), state, server)
    new_h = h - a * (0.9 * (W[0] - w) + 0.1 * (W[1] - w))
    assert torch.allclose(update.state["h"], new_h, atol=1e-14)
    assert torch.allclose(update.w, 0.9 * W[0] + 0.1 * W[1] - new_h / a, atol=1e-13)
    assert update.lambda_ is not None
    assert torch.equal(update.lambda_, p)


def test_a_plain_distance_has_no_gradient_where_training_starts() -> None:
    w, grad = torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    correct(grad, w, Correction(pull=0.5, anchor=w.clone()))
    assert not grad.any()


@pytest.mark.parametrize("distance", ["squared", "plain"])
def test_the_client_side_is_the_gradient_of_its_objective(distance: Literal["squared", "plain"]) -> None:
    method = FedDyn(FedDynSettings(a=0.7, distance=distance))
    h = torch.from_numpy(RNG.normal(size=(N, 4)))
    w_g = torch.from_numpy(RNG.normal(size=4))
    w = torch.from_numpy(RNG.normal(size=4)).requires_grad_()
    away = (w - w_g).square().sum()
    penalty = -(h[2] @ w) + 0.35 * (away if distance == "squared" else away.sqrt())
    penalty.backward()
    grad = torch.zeros(4, dtype=torch.float64)
    correct(grad, w.detach(), method.correction({"h_clients": h}, 2, w_g))
    assert w.grad is not None
    assert torch.allclose(grad, w.grad, atol=1e-14)
