"""FedAdam, FedDF, FedBE and Server-FT against their formulas."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedbench.methods import Cohort, LocalWork, Server
from fedbench.methods.fedadam import FedAdam, FedAdamSettings
from fedbench.methods.fedbe import FedBE, FedBESettings, gaussian
from fedbench.methods.feddf import FedDF, FedDFSettings
from fedbench.methods.finetune import Teacher, teacher_logits
from fedbench.methods.server_ft import ServerFT, ServerFTSettings
from tests.methods.helpers import tiny_cohort, tiny_server


def client_logits(server: Server, cohort: Cohort) -> torch.Tensor:
    """Of every client on the proxy set [m, N, classes]."""
    teachers = [Teacher(w, buffers) for w, buffers in zip(cohort.W, cohort.B, strict=True)]
    return torch.stack([teacher_logits(server, teacher, 5) for teacher in teachers])


def test_fedadam_is_its_equations_over_two_rounds() -> None:
    server = tiny_server()
    s = FedAdamSettings(lr=0.1, beta1=0.8, beta2=0.95, eps=1e-2)
    method = FedAdam(s)
    cohort = tiny_cohort(server)
    state = method.start(4, cohort.w)
    m, v, w = np.zeros(len(cohort.w)), np.full(len(cohort.w), 1e-4), cohort.w.numpy().copy()
    for _ in range(2):
        update = method.aggregate(cohort, state, server)
        d = sum(float(p) * (row.numpy() - cohort.w.numpy()) for p, row in zip(cohort.p, cohort.W, strict=True))
        m, v = 0.8 * m + 0.2 * d, 0.95 * v + 0.05 * d**2
        w = cohort.w.numpy() + 0.1 * m / (np.sqrt(v) + 1e-2)
        assert np.allclose(update.w.numpy(), w, atol=1e-13)
        state = update.state
        cohort = tiny_cohort(server, w=update.w)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_server_ft_is_adam_on_the_proxy_labels(batch_norm: bool) -> None:
    server, other = tiny_server(batch_norm=batch_norm), tiny_server(batch_norm=batch_norm)
    cohort = tiny_cohort(server)
    update = ServerFT(ServerFTSettings(epochs=3, lr=0.01, batch_size=5)).aggregate(cohort, {}, server)
    proxy = other.proxy
    other.model.load(cohort.p @ cohort.W, cohort.buffers)
    other.model.train()
    adam = torch.optim.Adam(other.model.module.parameters(), lr=0.01, betas=(0.5, 0.999))
    rng = other.rng("finetune")
    for _ in range(3):
        for index in proxy.batches(rng, 5):
            adam.zero_grad(set_to_none=False)
            F.cross_entropy(other.model(proxy.x[index]), proxy.y[index]).backward()
            adam.step()
    assert torch.allclose(update.w, other.model.w, atol=1e-12)
    assert update.buffers is not None
    assert torch.allclose(update.buffers, other.model.buffers, atol=1e-12)


@pytest.mark.parametrize("method", [FedDF(FedDFSettings(epochs=2, steps=3)), ServerFT(ServerFTSettings(steps=3))])
def test_steps_cap_the_work_on_the_server(method: FedDF | ServerFT) -> None:
    def run(epochs: int, steps: int | None) -> torch.Tensor:
        server = tiny_server()
        settings = method.settings.model_copy(update={"epochs": epochs, "steps": steps, "batch_size": 5})
        return type(method)(settings).aggregate(tiny_cohort(server), {}, server).w  # type: ignore[arg-type]

    batches = len(tiny_server().proxy.batches(np.random.default_rng(0), 5))
    fedavg = (tiny_cohort(tiny_server()).p @ tiny_cohort(tiny_server()).W).clone()
    assert batches > 1
    assert torch.equal(run(3, 3 * batches), run(3, None))
    assert torch.equal(run(3, 2 * batches), run(2, None))
    assert not torch.equal(run(3, batches - 1), run(1, None))
    assert torch.equal(run(3, 0), fedavg)


def test_distillation_pulls_the_student_to_the_clients_mean_prediction() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    target = client_logits(server, cohort).mean(0)

    def divergence(w: torch.Tensor) -> float:
        student = teacher_logits(server, Teacher(w, cohort.buffers), 5).log_softmax(1)
        p = target.softmax(1)
        return float((p * (p.log() - student)).sum(1).mean())

    before = divergence(cohort.p @ cohort.W)
    update = FedDF(FedDFSettings(epochs=200, lr=0.01)).aggregate(cohort, {}, server)
    assert divergence(update.w) < 0.05 * before


def test_one_distillation_step_follows_the_gradient_of_the_kl_divergence() -> None:
    server, other = tiny_server(), tiny_server()
    cohort = tiny_cohort(server)
    update = FedDF(FedDFSettings(epochs=1, lr=1e-3)).aggregate(cohort, {}, server)
    p = client_logits(other, cohort).mean(0).softmax(1)
    start = cohort.p @ cohort.W
    other.model.load(start, cohort.buffers)
    other.model.grad.zero_()
    (p * (p.log() - other.model(other.proxy.x).log_softmax(1))).sum(1).mean().backward()
    step = update.w - start
    assert torch.allclose(step, -1e-3 * other.model.grad.sign(), atol=1e-6)  # Adam's first step is lr * sign(g)


def test_teachers_use_their_own_statistics_in_eval_mode() -> None:
    server = tiny_server(batch_norm=True)
    cohort = tiny_cohort(server)
    alone, again = (teacher_logits(server, Teacher(cohort.W[0], cohort.B[0]), 5) for _ in range(2))
    assert torch.equal(alone, again)
    assert not torch.allclose(alone, teacher_logits(server, Teacher(cohort.W[0], cohort.B[1] + 1), 5))


def test_a_teacher_in_train_mode_goes_by_the_statistics_of_each_batch() -> None:
    server = tiny_server(batch_norm=True)
    cohort = tiny_cohort(server)
    one, other = (teacher_logits(server, Teacher(cohort.W[0], cohort.B[0] + add, train=True), 5) for add in (0, 1))
    assert torch.equal(one, other)  # whatever the running ones are
    server.model.load(cohort.W[0], cohort.B[0])
    server.model.train()
    with torch.no_grad():
        parts = [server.model(server.proxy.x[start : start + 5]) for start in (0, 5, 10)]
    assert torch.equal(one, torch.cat(parts))


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_fedbes_mode_is_that_of_all_teachers_but_the_clients(mode: Literal["eval", "train"]) -> None:
    server = tiny_server(batch_norm=True)
    teachers = FedBE(FedBESettings(samples=2, teacher_mode=mode)).teachers(tiny_cohort(server), server)
    assert [teacher.train for teacher in teachers] == [False] * 4 + [mode == "train"] * 3


def plain_sgd(w: torch.Tensor, cohort: Cohort, server: Server, steps: list[torch.Tensor], v: torch.Tensor) -> None:
    """SGD with the clients' momentum 0.9 and weight decay 0.01, by hand; w and v in place."""
    for index in steps:
        server.model.load(w, cohort.buffers)
        server.model.grad.zero_()
        F.cross_entropy(server.model(server.proxy.x[index]), server.proxy.y[index]).backward()
        v.mul_(0.9).add_(server.model.grad + 0.01 * w)
        w.sub_(0.08 * v)


@pytest.mark.parametrize("kept", ["fresh", "keep"])
def test_the_servers_sgd_has_the_clients_first_learning_rate_momentum_and_decay(kept: Literal["fresh", "keep"]) -> None:
    server, other = tiny_server(), tiny_server()
    work = LocalWork(torch.ones(4, dtype=torch.float64), 1, 32, 0.05, 0.9, True, 0.01, 0.08)
    method = ServerFT(ServerFTSettings(optimizer="sgd", optimizer_state=kept, lr=None, epochs=2, batch_size=5))
    state, v = method.start(4, server.model.w), torch.zeros_like(server.model.w)
    for seed in (0, 1):
        cohort = tiny_cohort(server, seed=seed, work=work)
        update = method.aggregate(cohort, state, server)
        rng, w = other.rng("finetune"), cohort.p @ cohort.W
        plain_sgd(w, cohort, other, [*other.proxy.batches(rng, 5), *other.proxy.batches(rng, 5)], v)
        assert torch.allclose(update.w, w, atol=1e-12)
        state = update.state
        assert bool(state) == (kept == "keep")
        if kept == "fresh":
            v.zero_()


def test_an_adam_that_is_kept_goes_on_where_it_stopped() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    settings = ServerFTSettings(optimizer_state="keep", epochs=1, lr=0.01)
    first = ServerFT(settings).aggregate(cohort, {}, server)
    again = tiny_cohort(server, W=first.w.expand(4, -1).clone())
    rng = np.random.default_rng(0)
    fixed = replace(server, rng=lambda purpose: rng)  # the second epoch's batches after the first one's
    whole = ServerFT(settings.model_copy(update={"epochs": 2})).aggregate(cohort, {}, fixed)
    rng = np.random.default_rng(0)
    half = ServerFT(settings).aggregate(cohort, {}, fixed)
    rest = ServerFT(settings).aggregate(replace(again, W=half.w.expand(4, -1).clone()), half.state, fixed)
    assert torch.allclose(rest.w, whole.w, atol=1e-12)
    forgotten = ServerFT(settings).aggregate(replace(again, W=half.w.expand(4, -1).clone()), {}, fixed)
    assert not torch.allclose(forgotten.w, whole.w, atol=1e-6)


def test_fedbe_samples_are_the_gaussian_over_normalised_updates() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    mean, std = gaussian(cohort, server.model.offsets)
    for start, end in zip(server.model.offsets, server.model.offsets[1:], strict=False):
        d = (cohort.W - cohort.w)[:, start:end].numpy()
        lengths = np.linalg.norm(d, axis=1)
        u = d / lengths[:, None]
        spread = np.sqrt(np.maximum(u.var(0), 1e-5))
        wanted = cohort.w[start:end].numpy() + lengths.mean() * u.mean(0)
        assert np.allclose(mean[start:end].numpy(), wanted, atol=1e-13)
        assert np.allclose(std[start:end].numpy(), lengths.mean() * 0.1 * spread, atol=1e-13)


def test_a_client_that_did_not_move_breaks_no_sample() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    cohort.W[:] = cohort.w
    mean, std = gaussian(cohort, server.model.offsets)
    assert torch.equal(mean, cohort.w)
    assert not std.any()


def test_fedbe_teaches_with_clients_average_and_samples() -> None:
    server = tiny_server(batch_norm=True)
    cohort = tiny_cohort(server)
    method = FedBE(FedBESettings(epochs=1, samples=5))
    teachers = list(method.teachers(cohort, server))
    assert len(teachers) == 4 + 1 + 5
    assert all(torch.equal(one.w, row) for one, row in zip(teachers, cohort.W, strict=False))
    assert torch.equal(teachers[4][0], cohort.p @ cohort.W)
    assert all(torch.equal(buffers, cohort.p @ cohort.B) for _, buffers, _ in teachers[4:])
    mean, std = gaussian(cohort, server.model.offsets)
    drawn = torch.stack([(w - mean) / std for w, _, _ in teachers[5:]])
    assert 0.5 < drawn.std() < 1.5  # standard normal noise, another for each
    assert not torch.equal(drawn[0], drawn[1])
    again = list(method.teachers(cohort, server))
    assert all(torch.equal(one[0], two[0]) for one, two in zip(teachers, again, strict=True))
