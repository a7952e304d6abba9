"""The length of a client's path, FedNova and SCAFFOLD."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedbench import TrialConfig
from fedbench.base.rng import generator
from fedbench.methods import METHODS, LocalWork, Method
from fedbench.methods.fednova import FedNova, FedNovaSettings
from fedbench.methods.scaffold import Scaffold, ScaffoldSettings
from fedbench.simulation import Simulation
from fedbench.simulation.local import Sgd, draw_plan, mean_gradient, round_lr
from tests.methods.helpers import make_cohort, tiny_cohort, tiny_server


def work(steps: list[float], momentum: float = 0.0, keeps: bool = False, lr: float = 0.1) -> LocalWork:
    return LocalWork(torch.tensor(steps, dtype=torch.float64), 1, 32, lr, momentum, keeps, 0.0, lr)


@given(steps=st.integers(1, 60), momentum=st.floats(0, 0.98))
def test_a_path_is_what_sgd_walks_along_a_constant_gradient(steps: int, momentum: float) -> None:
    w = v = 0.0
    for _ in range(steps):
        v = momentum * v + 1.0
        w -= 0.1 * v
    assert float(0.1 * work([steps], momentum).path) == pytest.approx(-w, rel=1e-9)


def test_a_path_with_kept_momentum_is_that_of_every_round_in_the_long_run() -> None:
    w = v = 0.0
    for _ in range(100):
        start = w
        for _ in range(7):
            v = 0.9 * v + 1.0
            w -= 0.1 * v
    assert float(0.1 * work([7], 0.9, keeps=True).path) == pytest.approx(start - w, rel=1e-9)


def test_the_steps_that_a_method_sees_are_those_that_clients_took(tiny: Any) -> None:
    config: TrialConfig = tiny(clients__epochs=3, clients__batch_size=16, clients__lr=0.5, clients__lr_decay=0.5)
    simulation = Simulation(config)
    trained = simulation.train_cohort(2, (0, 2, 4))
    shards = [len(simulation.federation.split.shards[client]) for client in (0, 2, 4)]
    assert trained.steps.tolist() == [3 * -(-size // 16) for size in shards]
    p = torch.full((3,), 1 / 3)
    cohort = simulation.cohort(2, (0, 2, 4), p, trained)
    assert cohort.work.lr == 0.25
    assert cohort.sizes.tolist() == simulation.federation.split.sizes[[0, 2, 4]].tolist()
    assert [span.name for span in cohort.layers.modules] == [name.rpartition(".")[0] for name in weights(simulation)]
    assert [span.name for span in cohort.layers.tensors] == [
        name for name, _ in simulation.model.module.named_parameters()
    ]


def weights(simulation: Simulation) -> list[str]:
    return [name for name, _ in simulation.model.module.named_parameters() if name.endswith("weight")]


def test_what_no_method_asked_for_does_not_travel(tiny: Any) -> None:
    simulation = Simulation(tiny())
    cohort = simulation.cohort(1, (0, 1), torch.tensor([0.5, 0.5]), simulation.train_cohort(1, (0, 1)))
    for name in ("losses", "class_counts"):
        with pytest.raises(RuntimeError, match="without saying so in its settings' reports"):
            getattr(cohort, name)
    asked = Simulation(tiny(method__name="feddisco"))
    cohort = asked.cohort(1, (0, 1), torch.tensor([0.5, 0.5]), asked.train_cohort(1, (0, 1)))
    assert cohort.class_counts.tolist() == asked.federation.split.class_counts[:2].tolist()
    with pytest.raises(RuntimeError, match="loss"):
        _ = cohort.losses


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fednova_normalises_every_update_by_its_path(momentum: float) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server, m=3, work=work([5, 40, 12], momentum))
    update = FedNova(FedNovaSettings()).aggregate(cohort, {}, server)
    a = [sum((1 - momentum**k) / (1 - momentum) for k in range(1, steps + 1)) for steps in (5, 40, 12)]
    p, W, w = cohort.p.numpy(), cohort.W.numpy(), cohort.w.numpy()
    wanted = w + np.dot(p, a) * sum(p[i] * (W[i] - w) / a[i] for i in range(3))
    assert np.allclose(update.w.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("momentum_state", ["keep", "reset"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_mean_gradients_are_those_that_a_client_took(tiny: Any, momentum_state: str, momentum: float) -> None:
    """Against the sum that the optimiser itself would see, taken step by step."""
    settings = {"clients__momentum": momentum, "clients__momentum_state": momentum_state, "precision": "float64"}
    simulation = Simulation(tiny(method__name="scaffold", **settings))
    simulation.step()
    state, client = simulation.state, 2
    w, velocity = state.w, state.velocity[client] if state.velocity else torch.zeros_like(state.w)
    correction = simulation.method.correction(state.method, client, w)
    assert correction is not None
    assert correction.linear is not None
    config, model = simulation.config, simulation.model
    rng = generator(config.seed, "batches", 2, client)
    shard = simulation.federation.split.shards[client]
    plan = draw_plan(shard, config.clients.epochs, config.clients.batch_size, rng, simulation.device)
    trained = simulation.train_cohort(2, (client,))
    assert trained.gradients is not None
    model.load(w, state.buffers)
    model.train()
    total, lr = torch.zeros_like(w), round_lr(config, 2)
    for index in plan.batches():
        x, y = simulation.federation.train.batch(index)
        model.grad.zero_()
        F.cross_entropy(model(x), y).backward()
        gradient = model.grad + correction.linear + config.clients.weight_decay * model.w
        velocity, total = momentum * velocity + gradient, total + gradient
        model.w.copy_(model.w - lr * velocity)
    assert torch.allclose(trained.gradients[0], total / plan.steps, atol=1e-10, rtol=0)


def test_a_client_that_took_no_step_neither_breaks_fednova_nor_moves_its_control_variate() -> None:
    server = tiny_server()
    W = tiny_cohort(server, m=3).W
    W[1] = server.model.w
    idle = tiny_cohort(server, m=3, W=W, work=work([5, 0, 12], 0.9), reported={"gradient": server.model.w - W})
    assert torch.isfinite(FedNova(FedNovaSettings()).aggregate(idle, {}, server).w).all()
    state = {"c_clients": torch.zeros_like(W), "c": torch.ones_like(server.model.w)}
    update = Scaffold(ScaffoldSettings()).aggregate(idle, state, server)
    assert not update.state["c_clients"][1].any()
    assert update.state["c_clients"][[0, 2]].any(1).all()


def test_fednova_with_equal_steps_is_fedavg() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server, work=work([9, 9, 9, 9], 0.9))
    update = FedNova(FedNovaSettings()).aggregate(cohort, {}, server)
    assert torch.allclose(update.w, cohort.p @ cohort.W, atol=1e-13, rtol=0)
    assert update.metrics["fednova_step"] == pytest.approx(1, abs=1e-13)


def test_one_round_of_scaffold_is_the_equations() -> None:
    server, n = tiny_server(), 6
    rng = np.random.default_rng(0)
    method = Scaffold(ScaffoldSettings(weights="uniform"))
    w, W = torch.from_numpy(rng.normal(size=5)), torch.from_numpy(rng.normal(size=(2, 5)))
    c_clients, c = torch.from_numpy(rng.normal(size=(n, 5))), torch.from_numpy(rng.normal(size=5))
    state = {"c_clients": c_clients.clone(), "c": c.clone()}
    p = torch.tensor([0.9, 0.1], dtype=torch.float64)
    gradients = (w - W) / (torch.tensor([[20], [30]]) * 0.3)  # of plain SGD, as its paper has it
    cohort = make_cohort(p=p, w=w, W=W, clients=(1, 4), num_clients=n, reported={"gradient": gradients})
    update = method.aggregate(cohort, state, server)
    new = {1: c_clients[1] - c + (w - W[0]) / (20 * 0.3), 4: c_clients[4] - c + (w - W[1]) / (30 * 0.3)}
    for client, row in new.items():
        assert torch.allclose(update.state["c_clients"][client], row, atol=1e-13)
    absent = [0, 2, 3, 5]
    assert torch.equal(update.state["c_clients"][absent], c_clients[absent])
    wanted = c + sum(row - c_clients[client] for client, row in new.items()) / n
    assert torch.allclose(update.state["c"], wanted, atol=1e-13)
    assert torch.allclose(update.w, W.mean(0), atol=1e-13)
    correction = method.correction(state, 4, w)
    assert correction.linear is not None
    assert torch.equal(correction.linear, c - c_clients[4])


def test_clients_report_the_classes_of_the_labels_that_they_have(tiny: Any) -> None:
    config: TrialConfig = tiny(method__name="feddisco", clients__corrupted=1.0, clients__corruption="flip")
    simulation = Simulation(config)
    told = simulation.cohort(1, (0, 1), torch.tensor([0.5, 0.5]), simulation.train_cohort(1, (0, 1))).class_counts
    assert told.tolist() == simulation.federation.split.class_counts[:2, ::-1].tolist()


def test_scaffolds_first_round_is_fedavg_bit_for_bit(tiny: Any) -> None:
    plain, controlled = Simulation(tiny(rounds=2)), Simulation(tiny(rounds=2, method__name="scaffold"))
    for simulation in (plain, controlled):
        simulation.step()
    assert torch.equal(plain.state.w, controlled.state.w)
    for simulation in (plain, controlled):
        simulation.step()
    assert not torch.equal(plain.state.w, controlled.state.w)


N, STEPS, LR = 6, 30, 0.1
RNG = np.random.default_rng(3)
CURVATURE = torch.from_numpy(RNG.uniform(0.2, 3.0, (N, 4)))  # client i: L_i(w) = 0.5 sum_k c_ik (w_k - t_ik)^2
TARGET = torch.from_numpy(RNG.normal(size=(N, 4)))
OPTIMUM = (CURVATURE * TARGET).sum(0) / CURVATURE.sum(0)  # where the sum of all L_i is least


def optimise(method: Method[Any], rounds: int, momentum: float, keeps: bool) -> Tensor:
    """Federated SGD on quadratics that pull apart; every client takes part."""
    w, server = torch.zeros(4, dtype=torch.float64), tiny_server()
    state, velocity = method.start(N, w), torch.zeros(N, 4, dtype=torch.float64)
    p = torch.full((N,), 1 / N, dtype=torch.float64)
    for t in range(1, rounds + 1):
        corrections = [method.correction(state, client, w) for client in range(N)]
        linear = torch.stack([torch.zeros_like(w) if c is None or c.linear is None else c.linear for c in corrections])
        W, velocity = w.repeat(N, 1), velocity if keeps else torch.zeros_like(velocity)
        before, sgd = velocity, Sgd(torch.tensor(LR * (1 - momentum), dtype=torch.float64), momentum, 0.0)
        for _ in range(STEPS):
            velocity = momentum * velocity + CURVATURE * (W - TARGET) + linear
            W = W - sgd.lr * velocity
        gradients = mean_gradient(w.expand_as(W), W, before, velocity, sgd, STEPS)
        update = method.aggregate(make_cohort(p=p, w=w, W=W, round=t, reported={"gradient": gradients}), state, server)
        w, state = update.w, update.state
    return w


@pytest.mark.parametrize(("momentum", "keeps"), [(0.0, False), (0.5, False), (0.5, True)])
def test_scaffold_reaches_the_optimum_that_fedavg_misses(momentum: float, keeps: bool) -> None:
    fedavg = METHODS.get("fedavg")
    biased = optimise(fedavg(fedavg.Settings()), 100, momentum, keeps)  # type: ignore[call-arg]
    assert float((biased - OPTIMUM).norm()) > 0.1
    found = optimise(Scaffold(ScaffoldSettings()), 300, momentum, keeps)
    assert float((found - OPTIMUM).norm()) < 1e-3


def test_absent_clients_do_not_count_in_full() -> None:
    """With half of the clients, c moves by half of the cohort's mean change."""
    server = tiny_server()
    cohort = tiny_cohort(server, m=3)
    cohort = replace(cohort, reported={"gradient": cohort.w - cohort.W})
    method = Scaffold(ScaffoldSettings())
    whole = method.aggregate(cohort, method.start(3, cohort.w), server)
    half = method.aggregate(replace(cohort, num_clients=6), method.start(6, cohort.w), server)
    assert torch.allclose(half.state["c"], whole.state["c"] / 2, atol=1e-14)
