from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.func import functional_call

from fedbench.methods.adaptive_gws import AdaptiveGWS, AdaptiveGWSSettings
from fedbench.methods.attentive_law import AttentiveLAWSettings
from fedbench.methods.base import Update
from fedbench.methods.fedlaw import FedLAW, FedLAWSettings
from fedbench.methods.fedlaw_swa import FedLAWSWA, FedLAWSWASettings
from fedbench.methods.learned import BASES, Swa, WeightLearner
from tests.methods.helpers import tiny_cohort, tiny_server

Base = Literal["exp", "quad"]


def weights_under_autograd(base: Base, p: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> tuple[Any, Any]:
    if base == "exp":
        return torch.softmax(p.log() + x, 0), y.exp()
    return x.square() / x.square().sum(), y.square()


@given(
    base=st.sampled_from(["exp", "quad"]),
    m=st.integers(1, 7),
    global_lr=st.sampled_from([0.5, 1.0, 1.5]),
    seed=st.integers(0, 500),
)
def test_the_analytic_gradient_is_autograds(base: Base, m: int, global_lr: float, seed: int) -> None:
    server = tiny_server(seed=seed)
    cohort = tiny_cohort(server, m, seed, global_lr=global_lr)
    learner = WeightLearner(cohort, server, FedLAWSettings(lr=0.01, base=base))
    draw = torch.Generator().manual_seed(seed)
    learner.x += 0.3 * torch.randn(m, generator=draw, dtype=torch.float64)
    learner.y += 0.1
    index = torch.arange(12)
    loss = learner.gradient(index, None, learn_gamma=True, learn_lambda=True)

    x, y = learner.x.clone().requires_grad_(), learner.y.clone().requires_grad_()
    lambda_, gamma = weights_under_autograd(base, cohort.p, x, y)
    moved = cohort.w + global_lr * (cohort.W - cohort.w)
    names = [name for name, _ in server.model.module.named_parameters()]
    parameters = dict(zip(names, server.model.views(gamma * (lambda_ @ moved)), strict=True))
    assert server.proxy_set
    logits = functional_call(server.model.module, parameters, (server.proxy_set.x,))
    wanted = F.cross_entropy(logits, server.proxy_set.y)
    wanted.backward()
    assert float(loss) == pytest.approx(float(wanted.detach()), abs=1e-12)
    assert x.grad is not None
    assert y.grad is not None
    assert torch.allclose(learner.x.grad, x.grad, atol=1e-10, rtol=0)  # type: ignore[arg-type]
    assert torch.allclose(learner.y.grad, y.grad, atol=1e-10, rtol=0)  # type: ignore[arg-type]


@given(
    base=st.sampled_from(["exp", "quad"]),
    m=st.integers(1, 8),
    lr=st.floats(1e-4, 1.0),
    epochs=st.integers(0, 12),
    seed=st.integers(0, 500),
)
def test_lambda_stays_on_the_simplex_and_gamma_positive(base: Base, m: int, lr: float, epochs: int, seed: int) -> None:
    server = tiny_server(seed=seed)
    update = FedLAW(FedLAWSettings(lr=lr, epochs=epochs, base=base, batch_size=5)).aggregate(
        tiny_cohort(server, m, seed), {}, server
    )
    assert update.lambda_ is not None
    assert float(update.lambda_.sum()) == pytest.approx(1, abs=1e-12)
    assert float(update.lambda_.min()) >= 0
    assert update.gamma > 0
    assert len(update.path) == epochs


@given(
    base=st.sampled_from(["exp", "quad"]),
    max_gamma=st.floats(1, 1.2),
    lr=st.floats(1e-3, 0.5),
    rule=st.sampled_from([FedLAW, FedLAWSWA, AdaptiveGWS]),
    seed=st.integers(0, 500),
)
def test_gamma_never_exceeds_its_bound_and_is_untouched_below_it(
    base: Base, max_gamma: float, lr: float, rule: Any, seed: int
) -> None:
    def learned(bound: float | None) -> Update:
        server = tiny_server(seed=seed)
        settings = rule.Settings(lr=lr, epochs=8, base=base, max_gamma=bound)
        update: Update = rule(settings).aggregate(tiny_cohort(server, 4, seed), {}, server)
        return update

    free, bounded = learned(None), learned(max_gamma)
    assert all(point.gamma <= max_gamma * (1 + 1e-12) for point in bounded.path)
    assert bounded.gamma <= max_gamma * (1 + 1e-12)
    if all(point.gamma < max_gamma for point in free.path):
        # With one batch an epoch the path shows every step, so the bound was never met.
        assert torch.equal(bounded.w, free.w)
        assert bounded.path == free.path


def test_a_gamma_that_wants_to_grow_ends_at_its_bound() -> None:
    server = tiny_server(seed=25)
    cohort = tiny_cohort(server, seed=25)
    free = AdaptiveGWS(AdaptiveGWSSettings(lr=0.05, epochs=60)).aggregate(cohort, {}, server)
    bounded = AdaptiveGWS(AdaptiveGWSSettings(lr=0.05, epochs=60, max_gamma=1.01)).aggregate(cohort, {}, server)
    assert free.gamma > 1.02
    assert bounded.gamma == pytest.approx(1.01, rel=1e-9)


@pytest.mark.parametrize("base", BASES)
def test_learning_lowers_the_proxy_loss(base: Base) -> None:
    server = tiny_server()
    update = FedLAW(FedLAWSettings(lr=0.02, epochs=60, base=base)).aggregate(tiny_cohort(server), {}, server)
    assert update.path[-1].loss < 0.98 * update.path[0].loss


def test_what_is_held_fixed_does_not_move() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    learner = WeightLearner(cohort, server, FedLAWSettings(lr=0.05))
    learner.run(5, learn_gamma=True, learn_lambda=False)
    assert torch.equal(learner.lambda_, cohort.p)
    gamma = float(learner.gamma)
    assert gamma != 1
    learner.run(5, learn_gamma=False, learn_lambda=True)
    assert float(learner.gamma) == gamma
    assert not torch.allclose(learner.lambda_, cohort.p)


@pytest.mark.parametrize("order", ["gamma_first", "lambda_first"])
def test_the_two_stages_come_in_the_order_asked_for(order: Literal["gamma_first", "lambda_first"]) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    settings = FedLAWSWASettings(lr=0.05, epochs=9, order=order)
    path = FedLAWSWA(settings).aggregate(cohort, {}, server).path
    assert len(path) == 8  # floor(9 / 2) epochs each
    sizes = tuple(cohort.p.tolist())
    first, second = path[:4], path[4:]
    if order == "gamma_first":
        assert all(point.lambda_ == sizes for point in first)
        assert len({point.gamma for point in second}) == 1
    else:
        assert all(point.gamma == 1 for point in first)
        assert len({point.lambda_ for point in second}) == 1


def test_swa_takes_the_mean_of_x_from_its_start_on() -> None:
    server = tiny_server()
    learner = WeightLearner(tiny_cohort(server), server, FedLAWSettings(lr=0.05))
    learner.run(10, learn_gamma=False, learn_lambda=True, swa=Swa(start=6, lr=0.05))
    visited = torch.tensor([point.lambda_ for point in learner.path], dtype=torch.float64)
    x = (visited / learner.base.p).log()  # x up to a constant, which lambda does not see
    mean = x[6:].mean(0)
    assert torch.allclose(learner.lambda_, learner.base.lambda_(mean), atol=1e-10)


def test_swa_without_an_average_keeps_the_last_x() -> None:
    server = tiny_server()
    learner = WeightLearner(tiny_cohort(server), server, FedLAWSettings(lr=0.05))
    learner.run(3, learn_gamma=False, learn_lambda=True, swa=Swa(start=6, lr=0.05))
    assert learner.lambda_.tolist() == pytest.approx(learner.path[-1].lambda_)


def test_steps_are_capped_over_all_epochs() -> None:
    server = tiny_server(n=12)
    settings = FedLAWSettings(lr=0.01, epochs=100, steps=7, batch_size=4)
    update = FedLAW(settings).aggregate(tiny_cohort(server), {}, server)
    assert len(update.path) == 3  # 3 + 3 + 1 steps


def test_the_learning_rate_is_halved_on_schedule() -> None:
    server = tiny_server()
    fast = FedLAW(FedLAWSettings(lr=0.01, epochs=40, lr_step=1)).aggregate(tiny_cohort(server), {}, server)
    moved = [abs(b.gamma - a.gamma) for a, b in zip(fast.path, fast.path[1:], strict=False)]
    assert moved[-1] < 1e-9 < moved[0]


def test_statistics_of_the_proxy_passes_are_left_behind_under_bn_proxy_only() -> None:
    server = tiny_server(batch_norm=True)
    settings = FedLAWSettings(lr=0.01, epochs=2)
    start = server.model.buffers.clone()
    left = FedLAW(settings).aggregate(tiny_cohort(server, bn="proxy", buffers=start), {}, server).buffers
    assert left is not None
    assert not torch.equal(left, start)
    assert FedLAW(settings).aggregate(tiny_cohort(server, bn="average"), {}, server).buffers is None


def test_settings_of_unused_swa_do_not_count() -> None:
    plain, other = AttentiveLAWSettings(lr=0.01), AttentiveLAWSettings(lr=0.01, swa_lr=0.5)
    assert plain.canonical() == other.canonical()
    used = AttentiveLAWSettings(lr=0.01, swa=True), AttentiveLAWSettings(lr=0.01, swa=True, swa_lr=0.5)
    assert used[0].canonical() != used[1].canonical()
