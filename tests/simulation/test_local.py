import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedbench import TrialConfig
from fedbench.data.samples import Samples
from fedbench.methods import Correction
from fedbench.models import FlatModel
from fedbench.simulation.local import Sgd, correct, draw_plan, local_train

CPU = torch.device("cpu")


def samples(n: int, dtype: torch.dtype = torch.float64) -> Samples:
    rng = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (n, 4, 4, 1), generator=rng, dtype=torch.uint8)
    return Samples(images, torch.randint(0, 3, (n,), generator=rng), 1 / 255, 0.0, dtype)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


@given(n=st.integers(1, 200), batch=st.integers(1, 64), epochs=st.integers(1, 4), seed=st.integers(0, 999))
def test_a_plan_visits_every_sample_once_an_epoch(n: int, batch: int, epochs: int, seed: int) -> None:
    shard = np.arange(1000, 1000 + n)
    plan = draw_plan(shard, epochs, batch, np.random.default_rng(seed), CPU)
    sizes = [len(index) for index in plan.batches()]
    assert len(sizes) == epochs * -(-n // batch)
    assert max(sizes) <= batch
    visited = torch.cat(list(plan.batches())).reshape(epochs, n)
    assert (visited.sort(1).values == torch.from_numpy(shard)).all()


def test_epochs_are_shuffled_anew() -> None:
    plan = draw_plan(np.arange(64), 2, 64, np.random.default_rng(0), CPU)
    assert not torch.equal(plan.full[0], plan.full[1])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_local_training_is_torchs_sgd(momentum: float, dtype: torch.dtype) -> None:
    data = samples(50, dtype)
    plan = draw_plan(np.arange(50), 3, 16, np.random.default_rng(0), CPU)
    module = net().to(dtype)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1, momentum=momentum, weight_decay=5e-4)
    model = FlatModel(net(), CPU, dtype)
    velocity = torch.zeros_like(model.w)
    sgd = Sgd(torch.tensor(0.1, dtype=dtype), momentum, 5e-4)
    loss = local_train(model, data, plan, sgd, velocity, None)
    total = 0.0
    for index in plan.batches():
        x, y = data.batch(index)
        optimiser.zero_grad()
        own = F.cross_entropy(module(x), y)
        own.backward()
        optimiser.step()
        total += float(own.detach()) * len(index)
    tolerance = 1e-13 if dtype == torch.float64 else 1e-5
    reference = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    assert torch.allclose(model.w, reference, atol=tolerance)
    assert float(loss) == pytest.approx(total / 150, rel=1e-5)


def test_momentum_goes_on_where_it_stopped() -> None:
    data, sgd = samples(32), Sgd(torch.tensor(0.1, dtype=torch.float64), 0.9, 0.0)
    whole = draw_plan(np.arange(32), 4, 8, np.random.default_rng(0), CPU)
    one = FlatModel(net(), CPU, torch.float64)
    local_train(one, data, whole, sgd, velocity := torch.zeros_like(one.w), None)
    two, kept = FlatModel(net(), CPU, torch.float64), torch.zeros_like(velocity)
    for part in (slice(0, 2), slice(2, 4)):
        local_train(two, data, type(whole)(whole.full[part], whole.rest[part]), sgd, kept, None)
    assert torch.equal(one.w, two.w)
    assert torch.equal(velocity, kept)


@given(mu=st.floats(0, 2), seed=st.integers(0, 999))
def test_a_correction_is_the_gradient_of_its_penalty(mu: float, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    w, anchor, linear, grad = torch.randn(4, 9, generator=rng, dtype=torch.float64)
    corrected = grad.clone()
    correct(corrected, w, Correction(linear=linear, mu=mu, anchor=anchor))
    leaf = w.clone().requires_grad_()
    penalty = linear @ leaf + mu / 2 * (leaf - anchor).square().sum()
    (wanted,) = torch.autograd.grad(penalty, leaf)
    assert torch.allclose(corrected, grad + wanted, atol=1e-12)


@pytest.mark.parametrize(("length", "wanted"), [(30.0, 10.0), (5.0, 5.0)])
def test_clipping_cuts_long_gradients_and_leaves_short_ones(length: float, wanted: float) -> None:
    grad = F.normalize(torch.arange(1.0, 6.0, dtype=torch.float64), dim=0) * length
    direction = grad / length
    correct(grad, grad, Correction(clip=10.0))
    assert torch.allclose(grad, direction * wanted, atol=1e-5)


def test_the_learning_rate_decays_once_a_round() -> None:
    config = TrialConfig(**{"precision": "float64"})
    rates = [float(Sgd.of_round(config, t, CPU).lr) for t in (1, 2, 50)]
    assert rates == pytest.approx([0.05, 0.05 * 0.99, 0.05 * 0.99**49])
